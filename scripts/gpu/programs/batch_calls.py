"""The ways in which programs come to PyTorch's batch normalization: each result beside double precision, with its type.
Prints a line for each, and ends with 1 if one is wrong.

    python batch_calls.py [--device cpu] [--compiles]
"""

import argparse
import copy

import batch_norm
import torch
from harness import calls
from looks import Looks, in_double
from torch.nn.functional import batch_norm as normalize

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
parser.add_argument("--compiles", action="store_true", help="try torch.compile too, which takes a compiler")
options = parser.parse_args()
device = options.device
looks = Looks(device)
made, look = looks.made, looks.look
SHAPE, CHANNELS = (4, 8, 7, 8), 8


def step(x, weight=None, bias=None, dy=None, running=(None, None), training=True):
    """y, and the gradients of all that there are."""
    leaves = [leaf for leaf in (x, weight, bias) if leaf is not None and leaf.requires_grad]
    y = normalize(x, *running, weight, bias, training)
    return [y.detach(), *torch.autograd.grad(y, leaves, torch.ones_like(y) if dy is None else dy.to(y.dtype))]


def doubled(x, weight=None, bias=None, dy=None, running=(None, None), training=True):
    return step(*map(in_double, (x, weight, bias)), dy, tuple(map(in_double, running)), training)


def statistics(kind=torch.float):
    """A running mean and a running variance."""
    return made(CHANNELS, kind=kind).detach(), made(CHANNELS, kind=kind).detach().abs() + 0.5


def trained(model, inputs):
    """The results of a model for inputs, one after the other, and what it holds in the end."""
    return [*(model(x).detach() for x in inputs), *(held for held in model.buffers() if held.is_floating_point())]


def model_step(model, x):
    """A model's result, its gradients, and what it holds."""
    model.zero_grad()
    y = model(x)
    y.sin().sum().backward()
    return [y.detach(), *(its.grad for its in model.parameters()), *(it for it in model.buffers() if it.is_floating_point())]


def on_both(what, model, exact, inputs, run=model_step):
    look(what, run(model, inputs), run(exact, in_double(inputs)))


batch_norm.begin(device)
for kind in (torch.float, torch.half, torch.bfloat16):
    for own in (False,) if kind == torch.float else (False, True):
        x, dy = made(*SHAPE, kind=kind), made(*SHAPE, kind=kind)
        weight, bias = (made(CHANNELS, kind=kind if own else torch.float) for _ in range(2))
        words = f"{kind}{', so its parameters' if own else ''}"
        # The gradients of parameters have the parameters' type.
        found, exact = step(x, weight, bias, dy), doubled(x, weight, bias, dy)
        look(f"eager in {words}", found[:2], exact[:2])
        look(f"gradients of parameters in {words}", found[2:], exact[2:])
        running = statistics(weight.dtype)
        wanted = [in_double(its) for its in running]
        normalize(x, *running, weight, bias, True), normalize(in_double(x), *wanted, *map(in_double, (weight, bias)), True)
        look(f"running statistics in {words}", running, wanted)
        # PyTorch's gradient on a CPU wants the statistics that its own evaluation gives, which are none.
        if own and device == "cpu":
            continue
        found, exact = (of(x, weight, bias, dy, running, False) for of in (step, doubled))
        look(f"evaluation and its gradient in {words}", found[:2], exact[:2])
        # These are PyTorch's own, which on a GPU rounds on the way.
        rounded_to = kind if device == "cuda" else None
        look(f"gradients of parameters in evaluation in {words}", found[2:], exact[2:], rounded_to=rounded_to)
    look(f"no weights in {kind}", step(x, dy=dy), doubled(x, dy=dy))
    look(f"no weights in evaluation in {kind}",
         *(of(x, dy=dy, running=running, training=False) for running in [statistics()] for of in (step, doubled)))  # fmt: skip

x, weight, bias, dy = made(*SHAPE), made(CHANNELS), made(CHANNELS), made(*SHAPE)
frozen = [tensor.detach() for tensor in (x, weight, bias)]
look("frozen parameters", step(x, *frozen[1:], dy), doubled(x, *frozen[1:], dy))
look("a frozen input", step(frozen[0], weight, bias, dy), doubled(frozen[0], weight, bias, dy))
last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
look("channels last", step(last, weight, bias, dy), doubled(x, weight, bias, dy))
none = normalize(torch.empty(0, CHANNELS, 4, device=device), *statistics(), weight, bias, False)
look("no images", [none.detach() + 1], [torch.ones(0, CHANNELS, 4, dtype=torch.double)])


def network(**how):
    """A network on the device, and the same in double precision."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(4, CHANNELS, 3, bias=False), torch.nn.BatchNorm2d(CHANNELS, **how)).to(device)
    return model, copy.deepcopy(model).double()


images = made(4, 4, 9, 10)
inputs = [made(4, 4, 9, 10).detach() for _ in range(3)]
for words, how in {
    "a module": {},
    "momentum None": {"momentum": None},
    "no running statistics": {"track_running_stats": False},
    "a module without weights": {"affine": False},
}.items():
    model, exact = network(**how)
    look(f"{words}, three steps", trained(model, inputs), trained(exact, map(in_double, inputs)))
    on_both(words, model, exact, images)
    on_both(f"{words}, evaluation", model.eval(), exact.eval(), images)


def second(x, weight, bias, dy, running=(None, None), training=True):
    """The gradient of the gradients."""
    y = normalize(x, *running, weight, bias, training)
    first = torch.autograd.grad(y, (x, weight, bias), dy, create_graph=True)
    return torch.autograd.grad(sum(gradient.square().sum() for gradient in first), (x, weight, dy), allow_unused=True)


def exactly(of, *tensors, **more):
    return of(*map(in_double, tensors), **more)


def there(gradients):
    return [gradient for gradient in gradients if gradient is not None]


look("a second gradient", second(x, weight, bias, dy), exactly(second, x, weight, bias, dy))
running = statistics()
look("a second gradient in evaluation", there(second(x, weight, bias, dy, running, False)),
     there(exactly(second, x, weight, bias, dy, running=tuple(map(in_double, running)), training=False)))  # fmt: skip

with torch.autocast(device, torch.bfloat16):
    found = step(x.bfloat16().detach().requires_grad_(), weight, bias, dy)
look("autocast", found[:2], doubled(x, weight, bias, dy)[:2], torch.bfloat16)
look("autocast, gradients of parameters", [its.bfloat16() for its in found[2:]], doubled(x, weight, bias, dy)[2:])


def of_one(x, weight, bias):
    return normalize(x[None], None, None, weight, bias, True).sin().sum()


per_example = torch.func.vmap(torch.func.grad(of_one), (0, None, None))(*frozen)
exact_ones = [torch.func.grad(of_one)(its, *(tensor.double() for tensor in frozen[1:])) for its in frozen[0].double()]
look("torch.func, vmap of grad", [per_example], [torch.stack(exact_ones)])
look("torch.func, grad", [torch.func.grad(of_one)(frozen[0][0], *frozen[1:])], exact_ones[:1])
stacked = torch.func.vmap(lambda x: normalize(x, *running, *frozen[1:], False))(torch.stack([frozen[0], 2 * frozen[0]]))
wanted = [normalize(in_double(times * frozen[0]), *map(in_double, running), *map(in_double, frozen[1:]), False) for times in (1, 2)]
look("torch.func, vmap in evaluation", [stacked], [torch.stack(wanted)])

model, exact = network()
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
on_both("SyncBatchNorm, one process", model, exact, images)
on_both("SyncBatchNorm, evaluation", model.eval(), exact.eval(), images)

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
model, exact = network()
on_both("DistributedDataParallel", torch.nn.parallel.DistributedDataParallel(model), exact, images)
torch.distributed.destroy_process_group()

for is_training in (True, False):
    model, exact = (it.train(is_training) for it in network())
    exported = torch.export.export(model, (images.detach(),)).module()
    look(f"torch.export, {'training' if is_training else 'evaluation'}", [exported(images).detach()], [exact(in_double(images)).detach()])

torch.use_deterministic_algorithms(True)
runs = [step(x, weight, bias, dy) for _ in range(3)]
torch.use_deterministic_algorithms(False)
look("deterministic algorithms", runs[0], doubled(x, weight, bias, dy))
looks.note(all(torch.equal(*pair) for run in runs[1:] for pair in zip(runs[0], run)), "deterministic algorithms, bits", "3 runs")

with torch.profiler.profile() as profile:
    step(x, weight, bias, dy)
counts = {event.key: event.count for event in profile.key_averages()}
names = ("aten::native_batch_norm", "aten::native_batch_norm_backward")
if device == "cuda":
    names = tuple(name.replace("native", "cudnn") if name.replace("native", "cudnn") in counts else name for name in names)
looks.note(all(counts.get(name) == 1 for name in names), "the profiler", f"{', '.join(names)}")

if device == "cuda":
    looks.replays(step, doubled, (x, weight, bias), dy)
print(f"{len(looks.wrong)} wrong before torch.compile", flush=True)

for backend in ("aot_eager", "inductor") if options.compiles else ():
    model, exact = network()
    on_both(f"torch.compile by {backend}", torch.compile(model, backend=backend), exact, images)
looks.end()
