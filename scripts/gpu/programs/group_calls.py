"""The ways in which programs come to PyTorch's group normalization: each result beside double precision, with its type and
layout. Prints a line for each, and ends with 1 if one is wrong.

    python group_calls.py [--device cpu] [--compiles]
"""

import argparse

import batch_norm
import torch
from looks import Looks, in_double

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--compiles", action="store_true", help="try torch.compile too, which takes a compiler")
options = parser.parse_args()
device = options.device
group_norm = torch.nn.functional.group_norm
looks = Looks(device)
made, look = looks.made, looks.look


def step(x, groups, weight=None, bias=None, dy=None, normalize=group_norm):
    """y, and the gradients of all that there are."""
    leaves = [leaf for leaf in (x, weight, bias) if leaf is not None and leaf.requires_grad]
    y = normalize(x, groups, weight, bias)
    return [y.detach(), *torch.autograd.grad(y, leaves, torch.ones_like(y) if dy is None else dy.to(y.dtype))]


def doubled(x, groups, weight=None, bias=None, dy=None):
    x, weight, bias = (in_double(leaf) for leaf in (x, weight, bias))
    return step(x, groups, weight, bias, dy)


batch_norm.begin(device)
for kind in (torch.float, torch.half, torch.bfloat16):
    x, weight, bias, dy = (made(*shape, kind=kind) for shape in ((2, 8, 7, 8), (8,), (8,), (2, 8, 7, 8)))
    look(f"eager in {kind}", step(x, 4, weight, bias, dy), doubled(x, 4, weight, bias, dy))
    look(f"no weights in {kind}", step(x, 4, dy=dy), doubled(x, 4, dy=dy))
    look(f"a weight alone in {kind}", step(x, 4, weight, dy=dy), doubled(x, 4, weight, dy=dy))

x, weight, bias, dy = made(2, 8, 7, 8), made(8), made(8), made(2, 8, 7, 8)
frozen = [tensor.detach() for tensor in (x, weight, bias)]
look("frozen parameters", step(x, 2, *frozen[1:], dy), doubled(x, 2, *frozen[1:], dy))
look("a frozen bias", step(x, 2, weight, frozen[2], dy), doubled(x, 2, weight, frozen[2], dy))
look("a frozen input", step(frozen[0], 2, weight, bias, dy), doubled(frozen[0], 2, weight, bias, dy))
rows = made(4, 8, 8)
turned = made(4, 8, 8).transpose(1, 2)
look("a gradient that is not packed", step(rows, 2, weight, bias, turned), doubled(rows, 2, weight, bias, turned))
look("a gradient that repeats a number", step(x, 2, weight, bias, dy[:1, :1, :1, :1].expand_as(x)),
     doubled(x, 2, weight, bias, dy[:1, :1, :1, :1].expand_as(x)))  # fmt: skip
last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
look("channels last", step(last, 2, weight, bias, dy), doubled(x, 2, weight, bias, dy))
aside = made(2 * 8 * 56 + 1).detach()[1:].view(2, 8, 7, 8).requires_grad_()
look("memory that is not aligned", step(aside, 2, weight, bias, dy), doubled(aside, 2, weight, bias, dy))
few, of_few = made(1, 3, 3), made(1, 3, 3)
look("a tensor that is not whole vectors", step(few, 3, dy=of_few), doubled(few, 3, dy=of_few))
none = group_norm(torch.empty(0, 8, 4, device=device), 2, weight, bias)
look("no images", [none.detach() + 1], [torch.ones(0, 8, 4, dtype=torch.double)])

with torch.autocast(device, torch.bfloat16):
    found = step(x, 2, weight, bias, dy)
look("autocast", found, doubled(x, 2, weight, bias, dy), torch.float)


def second(x, weight, bias, dy):
    """The gradient of the gradients."""
    y = group_norm(x, 2, weight, bias)
    first = torch.autograd.grad(y, (x, weight, bias), dy, create_graph=True)
    return torch.autograd.grad(sum(gradient.square().sum() for gradient in first), (x, weight, dy))


look("a second gradient", second(x, weight, bias, dy), second(*(in_double(leaf) for leaf in (x, weight, bias, dy))))

per_example = torch.func.vmap(torch.func.grad(lambda x: group_norm(x[None], 2, frozen[1], frozen[2]).square().sum()))
look("torch.func", [per_example(frozen[0])],
     doubled(x, 2, *frozen[1:], dy=2 * group_norm(in_double(frozen[0]), 2, *map(in_double, frozen[1:])))[1:])  # fmt: skip

volume = made(1, 16, 3, 5, 4)
ones = torch.ones(16, device=device)
saved = torch.native_group_norm(volume.detach(), ones, None, 1, 16, 60, 4, 1e-5)
for wanted in ([True, True, False], [True, False, True], [False, True, True], [True, False, False]):
    gradients = torch.ops.aten.native_group_norm_backward(
        torch.ones_like(volume), volume.detach(), saved[1], saved[2], ones, 1, 16, 60, 4, wanted)  # fmt: skip
    if [gradient is not None for gradient in gradients] != wanted:
        looks.wrong.append(f"results {wanted}")
print(f"{len(looks.wrong)} wrong before torch.compile")

if options.compiles:
    compiled = torch.compile(group_norm)
    look("torch.compile", step(x, 2, weight, bias, dy, compiled), doubled(x, 2, weight, bias, dy))
looks.end()
