"""Calls of PyTorch's own operators that PyTorch refuses: under the library its exception reaches the program, and the next
call is right. Prints what it saw, and ends with 1 if that is wrong.

    python refused.py [--device cpu]
"""

import argparse

import batch_norm
import torch

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
device = parser.parse_args().device
batch_norm.begin(device)
x, ones = torch.randn(4, 8, 7, 8, device=device).bfloat16(), torch.ones(8, device=device)
elsewhere = torch.ones(8)
cases = {"numbers on another device": (elsewhere, elsewhere)} if device == "cuda" else {"one running statistic": (ones, None)}
for what, running in cases.items():
    for is_training in (True, False):
        try:
            torch.native_batch_norm(x, ones, ones, *running, is_training, 0.1, 1e-5)
        except (RuntimeError, ValueError) as error:
            print(f"{what}, {'training' if is_training else 'evaluation'}: {str(error).splitlines()[0]}")
        else:
            raise SystemExit(f"{what}: PyTorch refuses it, and nothing was raised")
try:
    torch.native_group_norm(x, ones.bfloat16(), None, 4, 8, 56, 3, 1e-5)
except RuntimeError as error:
    print(f"three groups of eight channels: {str(error).splitlines()[0]}")
else:
    raise SystemExit("three groups of eight channels: PyTorch refuses them, and nothing was raised")
y = torch.native_batch_norm(x, ones, 0 * ones, ones.clone(), ones.clone(), True, 0.1, 1e-5)[0]
off = (y.double() - torch.nn.functional.batch_norm(x.double(), None, None, training=True)).norm() / y.double().norm()
raise SystemExit(0 if off < 5e-3 else f"the next call is wrong by {off:.1e}")
