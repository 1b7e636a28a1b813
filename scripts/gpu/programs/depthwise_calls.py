"""The ways in which programs come to PyTorch's own depthwise convolutions: each result beside double precision, with its
type, and how many passes ran on our kernels. Prints a line for each, and ends with 1 if one is wrong. On a CPU, which has no
such operators, PyTorch's other convolutions run.

    python depthwise_calls.py [--device cpu] [--compiles] 2>LOG
"""

import argparse
import copy
import os
import stat

import batch_norm
import torch
from depthwise import convolution
from harness import calls
from looks import Looks, in_double
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--compiles", action="store_true", help="try torch.compile too, which takes a compiler")
options = parser.parse_args()
device = options.device
looks = Looks(device)
made = looks.made
# Of fewer than 32 channels none is cuDNN's in types of two bytes.
CHANNELS, IMAGE, VOLUME = 8, (3, 8, 9, 11), (2, 8, 5, 7, 6)
PASSES = 3


class Launches:
    """The passes that have run on our kernels, by the library's log: standard error, if that is a file."""

    def __init__(self):
        self.is_known, self.seen = stat.S_ISREG(os.fstat(2).st_mode), 0

    def new(self):
        """How many since the last call; None if that is not known."""
        if not self.is_known:
            return None
        calls.waiting(device)()
        with open("/proc/self/fd/2", errors="replace") as log:
            seen = sum("depthwise convolution" in line and "on our kernels" in line for line in log)
        self.seen, before = seen, self.seen
        return seen - before


launches = Launches()


def look(what, found, exact, kind=None, least=0):
    """Compares tensors with those of double precision. On a GPU so many passes at least run on our kernels."""
    ours = launches.new()
    looks.look(what if ours is None else f"{what}, {ours} passes on our kernels", found, exact, kind)
    if device == "cuda" and ours is not None and ours < least:
        looks.note(False, what, f"expected at least {least} passes on our kernels")


def step(x, weight, bias=None, dy=None, stride=1, padding=1, dilation=1):
    """y, and the gradients of all that there are."""
    leaves = [leaf for leaf in (x, weight, bias) if leaf is not None and leaf.requires_grad]
    y = convolution(x)(x, weight, bias, stride, padding, dilation, x.shape[1])
    return [y.detach(), *torch.autograd.grad(y, leaves, torch.ones_like(y) if dy is None else dy.to(y))]


def doubled(x, weight, bias=None, dy=None, **window):
    return step(*map(in_double, (x, weight, bias)), dy, **window)


def drawn(shape, kind=torch.float, size=3):
    """x, a weight, a bias and a gradient of y that a padding makes as large as x."""
    return (made(*shape, kind=kind), made(CHANNELS, 1, *[size] * (len(shape) - 2), kind=kind), made(CHANNELS, kind=kind),
            made(*shape, kind=kind).detach())  # fmt: skip


batch_norm.begin(device)
calls.allow_tf32(False)
for kind in (torch.float, torch.half, torch.bfloat16):
    for name, shape in {"images": IMAGE, "volumes": VOLUME, "sequences": (2, CHANNELS, 1, 40)}.items():
        window = {"padding": (0, 1)} if name == "sequences" else {}
        x, weight, bias, dy = drawn(shape, kind)
        if name == "sequences":
            weight = made(CHANNELS, 1, 1, 3, kind=kind)
        look(f"{name} in {kind}", step(x, weight, bias, dy, **window), doubled(x, weight, bias, dy, **window), least=PASSES)
        look(f"{name} in {kind}, no bias", step(x, weight, None, dy, **window), doubled(x, weight, None, dy, **window), least=PASSES)
    for words, window in {"stride 2": {"stride": 2}, "dilation 2": {"dilation": 2, "padding": 2}}.items():
        x, weight, bias, _ = drawn(IMAGE, kind)
        look(f"images in {kind}, {words}", step(x, weight, bias, **window), doubled(x, weight, bias, **window), least=PASSES)

x, weight, bias, dy = drawn(IMAGE)
frozen = [tensor.detach() for tensor in (x, weight, bias)]
look("frozen parameters", step(x, *frozen[1:], dy), doubled(x, *frozen[1:], dy), least=2)
look("a frozen input", step(frozen[0], weight, bias, dy), doubled(frozen[0], weight, bias, dy), least=2)
last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
look("channels last", step(last, weight, bias, dy), doubled(x, weight, bias, dy))
wide = made(3, CHANNELS, 9, 22).detach()[..., ::2].requires_grad_()
look("memory that is not packed", step(wide, weight, bias, dy), doubled(wide, weight, bias, dy), least=PASSES)
turned = made(3, CHANNELS, 11, 9).detach().transpose(2, 3)
look("a gradient that is not packed", step(x, weight, bias, turned), doubled(x, weight, bias, turned), least=PASSES)
none = convolution(x)(x[:0], weight, bias, 1, 1, 1, CHANNELS)
look("no images", [none.detach() + 1], [torch.ones(none.shape, dtype=torch.double)])


def twice(x, weight, bias, dy):
    """The gradients of one graph that is kept."""
    y = convolution(x)(x, weight, bias, 1, 1, 1, CHANNELS)
    first = torch.autograd.grad(y, (x, weight, bias), dy.to(y), retain_graph=True)
    return [*first, *torch.autograd.grad(y, (x, weight, bias), 2 * dy.to(y))]


def second(x, weight, dy):
    """The gradient of the gradients."""
    y = convolution(x)(x, weight, None, 1, 1, 1, CHANNELS)
    first = torch.autograd.grad(y, (x, weight), dy, create_graph=True)
    return torch.autograd.grad(sum(gradient.square().sum() for gradient in first), (x, weight, dy))


look("retain_graph", twice(x, weight, bias, dy), twice(*map(in_double, (x, weight, bias, dy))), least=2 * PASSES - 1)
for shape in (IMAGE, VOLUME):
    its = drawn(shape)
    leaves = [its[0], its[1], its[3].requires_grad_()]
    look(f"a second gradient, {len(shape) - 2} axes", second(*leaves), second(*map(in_double, leaves)), least=PASSES)
kept = checkpoint(lambda x: convolution(x)(x, weight, bias, 1, 1, 1, CHANNELS), x, use_reentrant=False)
# The convolution itself does not run again: what its gradient needs is there before.
look("checkpoint", torch.autograd.grad(kept, (x, weight, bias), dy), doubled(x, weight, bias, dy)[1:], least=PASSES)

for kind in (torch.half, torch.bfloat16) if device == "cuda" else (torch.bfloat16,):
    with torch.autocast(device, kind):
        found = step(x, weight, bias, dy)
    look(f"autocast to {kind}", found[:1], doubled(x, weight, bias, dy)[:1], kind, least=PASSES)
    # Leaves keep their type, and what their gradients were computed in is shorter.
    look(f"autocast to {kind}, gradients", [its.to(kind) for its in found[1:]], doubled(x, weight, bias, dy)[1:])


def of_one(x, weight, bias):
    """A loss of one image."""
    return convolution(x[None])(x[None], weight, bias, 1, 1, 1, CHANNELS).sin().sum()


exact = [its.double() for its in frozen]
ways = (0, 1, 2)
gradients = torch.func.grad(of_one, ways)
look("torch.func, grad", gradients(frozen[0][0], *frozen[1:]), gradients(exact[0][0], *exact[1:]), least=PASSES)
per_example = torch.func.vmap(gradients, (0, None, None))
look("torch.func, vmap of grad", per_example(*frozen), per_example(*exact))
stacked = lambda x, weight: torch.func.vmap(lambda x, weight: convolution(x)(x, weight, None, 1, 1, 1, CHANNELS), (0, 0))(x, weight)  # noqa: E731
several = [torch.stack([its, 2 * its]) for its in frozen[:2]]
look("torch.func, vmap of images and filters", [stacked(*several)], [stacked(*map(torch.Tensor.double, several))])
along = lambda x, weight, dx: torch.func.jvp(lambda x: convolution(x)(x, weight, None, 1, 1, 1, CHANNELS), (x,), (dx,))  # noqa: E731
look("torch.func, jvp", along(*frozen[:2], dy), along(*exact[:2], dy.double()), least=2)


def network():
    """A network on the device, and the same in double precision."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(CHANNELS, CHANNELS, 5, padding=2, groups=CHANNELS), torch.nn.SiLU(),
                                torch.nn.Conv2d(CHANNELS, 4, 1)).to(device)  # fmt: skip
    return model, copy.deepcopy(model).double()


def model_step(model, x):
    model.zero_grad()
    y = model(x)
    y.square().sum().backward()
    return [y.detach(), *(its.grad for its in model.parameters())]


model, wanted = network()
exported = torch.export.export(model, (frozen[0],)).module()
look("torch.export", [exported(frozen[0]).detach()], [wanted(exact[0]).detach()], least=1)
y = exported(x)
look("torch.export, a gradient", torch.autograd.grad(y.square().sum(), x),
     torch.autograd.grad(wanted(leaf := in_double(x)).square().sum(), leaf), least=2)  # fmt: skip
parallel = copy.deepcopy(model)
optimizer = torch.optim.SGD(parallel.parameters(), lr=1e-3, foreach=False)
reference = copy.deepcopy(wanted)
for _ in range(3):
    found, its = model_step(parallel, frozen[0]), model_step(reference, exact[0])
    optimizer.step()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter -= 1e-3 * parameter.grad
look("a module, three steps", found, its, least=2 * 3)

for words, switch in {"deterministic algorithms": torch.use_deterministic_algorithms,
                      "cudnn.deterministic": lambda on: setattr(torch.backends.cudnn, "deterministic", on)}.items():  # fmt: skip
    switch(True)
    runs = [step(x, weight, bias, dy) for _ in range(3)]
    switch(False)
    look(words, runs[0], doubled(x, weight, bias, dy))
    looks.note(all(torch.equal(*pair) for run in runs[1:] for pair in zip(runs[0], run)), f"{words}, bits", "3 runs")

with torch.profiler.profile() as profile:
    step(x, weight, bias, dy)
counts = {event.key: event.count for event in profile.key_averages()}
names = ("aten::_conv_depthwise2d" if device == "cuda" else "aten::convolution", "aten::convolution_backward")
looks.note(all(counts.get(name) == 1 for name in names), "the profiler", ", ".join(names))

if device == "cuda":
    for strides in ([1], [1, 1, 1]):
        try:
            torch.ops.aten._conv_depthwise2d(x, weight, [3, 3], None, strides, [1, 1], [1, 1])
        except RuntimeError as error:
            looks.note(True, f"{len(strides)} strides", f"refused: {str(error).splitlines()[0]}")
        else:
            looks.note(False, f"{len(strides)} strides", "PyTorch refuses them, and nothing was raised")
    looks.replays(step, doubled, (x, weight, bias), dy, launches.new)
print(f"{len(looks.wrong)} wrong before torch.compile", flush=True)

for backend in ("aot_eager", "inductor") if options.compiles else ():
    model, wanted = network()
    look(f"torch.compile by {backend}", model_step(torch.compile(model, backend=backend), frozen[0]), model_step(wanted, exact[0]))
looks.end()
