"""A kernel that a program puts in the place of one of PyTorch's operators before the library comes stays there; other
operators are the library's, which must be forced on a CPU. Ends with 1 if that is wrong.

    python other_kernels.py [--device cpu]
"""

import argparse

import batch_norm
import torch

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
device = parser.parse_args().device
key = "CUDA" if device == "cuda" else "CPU"


def mine(x, *_):
    return x + 1, x.new_ones(x.shape[1]), x.new_ones(x.shape[1])


library = torch.library.Library("aten", "IMPL")
library.impl("native_batch_norm", mine, key, allow_override=True)
batch_norm.begin(device)
x, ones = torch.randn(4, 8, 7, 8, device=device).bfloat16(), torch.ones(8, device=device)
y = torch.native_batch_norm(x, ones, ones, None, None, True, 0.1, 1e-5)[0]
states = {name: torch._C._dispatch_dump(f"aten::{name}").splitlines()
          for name in ("native_batch_norm", "native_batch_norm_backward", "native_group_norm", "_conv_depthwise2d", "conv_depthwise3d")}  # fmt: skip
owners = {name: next(line for line in lines if line.startswith(f"{key}:")).split(" :: ")[0] for name, lines in states.items()}
print("\n".join(f"{name} {owner}" for name, owner in owners.items()))
is_mine, is_pytorchs = __file__ in owners["native_batch_norm"], f"Register{key}" in owners["native_batch_norm_backward"]
are_ours = all("ucudnn" in owners[name] for name in ("native_group_norm", "_conv_depthwise2d", "conv_depthwise3d"))
right = torch.equal(y, x + 1) and is_mine and is_pytorchs and are_ours
raise SystemExit(0 if right else "a kernel is not whose it should be")
