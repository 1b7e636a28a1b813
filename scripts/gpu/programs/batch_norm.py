"""Batch normalization, in training and in inference, by PyTorch, plain or under the library: a JSON line for each case. In
half and float PyTorch calls cuDNN, in bfloat16 kernels of its own.

    python batch_norm.py times|errors|random|repeat|host [--device cpu] [--runs N]

Cases have the same data in each process, so that lines of two processes can be compared.
"""

import argparse
import ctypes
import itertools
import json
import random
import statistics
import time

import torch
from harness import calls

EPSILON, MOMENTUM = 1e-5, 0.1
TYPES = {kind: calls.TYPES[kind] for kind in ("half", "bfloat16", "float")}
# ResNet-50's, of images of 224 x 224: channels, the side of a plane, and how many layers have them.
RESNET50 = [(64, 112, 1), (64, 56, 6), (256, 56, 4), (128, 56, 1), (128, 28, 7), (512, 28, 5), (256, 28, 1),
            (256, 14, 11), (1024, 14, 7), (512, 14, 1), (512, 7, 5), (2048, 7, 4)]  # fmt: skip
# Images, channels and planes: the network's, and others, among them planes that are not whole vectors, and rows.
CHECKED = [(128, 64, 56, 56), (32, 256, 14, 14), (128, 512, 7, 7), (16, 64, 112, 112), (8, 32, 35, 35), (64, 16, 17, 17),
           (3, 8, 149, 149), (2, 24, 1, 1), (256, 64, 1, 1), (4, 32, 224, 224), (2, 16, 9, 14, 14), (32, 24, 1000)]  # fmt: skip
# On a CPU our kernels are emulated, which takes long.
SMALL = [(4, 8, 7, 8), (2, 16, 5, 5), (16, 8), (9, 24, 1, 1), (2, 4, 3, 4, 4), (3, 8, 4), (1, 3, 33, 8)]
REPEATED = [(32, 64, 28, 28), (16, 128, 7, 7), (8, 16, 56, 56)]
# Enough buffers that a call finds none of its data in the cache of any GPU.
MOST_CACHED = 200 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--runs", type=int, default=10000, help="of each repeated case, or of each call that the host is timed in [10000]")
    parser.add_argument("--batch", type=int, default=128, help="images of the timed cases [128]")
    parser.add_argument("--cases", type=int, default=200, help="random ones [200]")
    parser.add_argument("--only", help="a type")
    options = parser.parse_args()
    begin(options.device)
    for found in PARTS[options.part](options):
        print(json.dumps(found), flush=True)


class Case:
    """Tensors and parameters, from a seed. The parameters are floats, or with `own` of the tensors' type."""

    def __init__(self, shape, kind, device, seed=1, apart=0.0, last=False, own=False, affine=True, tracks=True):
        self.is_native = device == "cpu" or own or not affine or kind == "bfloat16"
        generator = torch.Generator(device).manual_seed(seed)
        normal = lambda *sizes: torch.randn(*sizes, device=device, generator=generator)  # noqa: E731
        channels = shape[1]
        means = normal(1, channels, *[1] * (len(shape) - 2)) * apart
        layout = torch.channels_last if last else torch.contiguous_format
        tensor = lambda values: values.to(TYPES[kind]).contiguous(memory_format=layout)  # noqa: E731
        self.x, self.dy = tensor(normal(*shape) + means), tensor(normal(*shape))
        numbers = lambda values: values.to(TYPES[kind] if own else torch.float)  # noqa: E731
        self.scale, self.bias = (numbers(normal(channels).abs() + 0.5), numbers(normal(channels))) if affine else (None, None)
        running = (torch.zeros(channels, device=device), torch.ones(channels, device=device)) if tracks else (None, None)
        self.running = [tensor if tensor is None else numbers(tensor) for tensor in running]
        # What inference is given, near what x has.
        variances = normal(channels).abs() + 0.5
        self.given = [numbers(means.flatten() + normal(channels) * 0.1), numbers(variances)]
        for leaf in self.leaves():
            leaf.requires_grad_()

    def leaves(self):
        return [leaf for leaf in (self.x, self.scale, self.bias) if leaf is not None]

    def step(self):
        """y, dx, and the gradients of scale and bias."""
        y = torch.nn.functional.batch_norm(self.x, *self.running, self.scale, self.bias, True, MOMENTUM, EPSILON)
        return y.detach(), *torch.autograd.grad(y, self.leaves(), self.dy)

    def exact(self):
        """The results of a first step in double precision, by name."""
        x, dy = self.x.detach().double(), self.dy.double()
        without = self.scale is None
        scale, bias = (x.new_ones(x.shape[1]), x.new_zeros(x.shape[1])) if without else (
            self.scale.detach().double(), self.bias.detach().double())  # fmt: skip
        others = [i for i in range(x.dim()) if i != 1]
        count = x.numel() // x.shape[1]
        wide = lambda values: values.view(-1, *[1] * (x.dim() - 2))  # noqa: E731
        mean = x.mean(others)
        variance = (x - wide(mean)).square().mean(others)
        inverse = (variance + EPSILON).rsqrt()
        normal = (x - wide(mean)) * wide(inverse)
        dbias, dscale = dy.sum(others), (dy * normal).sum(others)
        dx = wide(scale * inverse) * (dy - wide(dbias) / count - normal * wide(dscale) / count)
        given_mean, given_variance = (wide(given.double()) for given in self.given)
        inferred = (x - given_mean) * (given_variance + EPSILON).rsqrt() * wide(scale) + wide(bias)
        found = {"inference y": inferred, "y": normal * wide(scale) + wide(bias), "dx": dx, "saved mean": mean,
                 "saved inverse": inverse}  # fmt: skip
        if not without:
            found |= {"dscale": dscale, "dbias": dbias}
        if self.running[0] is not None:
            unbiased = variance * count / max(count - 1, 1)
            found |= {"running mean": MOMENTUM * mean, "running variance": 1 - MOMENTUM + MOMENTUM * unbiased}
        return found


def begin(device):
    """Makes a handle of cuDNN's, as programs with convolutions do: the library then looks for PyTorch's own operators."""
    if device == "cuda":
        torch.nn.functional.conv2d(torch.ones(1, 8, 8, 8, device=device), torch.ones(8, 8, 3, 3, device=device))
    elif hasattr(ctypes.CDLL(None), "cudnnCreate"):
        # On a CPU PyTorch makes none. With a preloaded library there is one to make.
        ctypes.CDLL(None).cudnnCreate(ctypes.byref(ctypes.c_void_p()))


def sizes(shapes, options):
    return shapes if options.device == "cuda" else SMALL


def errors(options):
    """The error of each result: the norm of its difference from double precision, over that of the exact result."""
    for kind, shape in ((k, s) for k in TYPES for s in sizes(CHECKED, options) if options.only in (None, k)):
        # In two bytes, numbers far from 0 have no deviation left.
        for apart in (0.0, 1e3, 1e5) if kind == "float" else (0.0, 4.0):
            for own in (False,) if kind == "float" else (False, True):
                name = f"{kind}{', so its parameters' if own else ''} {'x'.join(map(str, shape))} means {apart:g}"
                yield errors_of(Case(shape, kind, options.device, apart=apart, own=own), name)


def errors_of(case, name):
    exact = case.exact()
    saved = forward(case)()
    found = dict(zip(("y", "saved mean", "saved inverse"), saved))
    found |= dict(zip(("dx", "dscale", "dbias"), backward(case, saved)()))
    found |= {name: its for name, its in zip(("running mean", "running variance"), case.running) if its is not None}
    found["inference y"] = inference(case)()
    return {"case": name, "errors": {what: calls.error(found[what], exact[what]) for what in found}}


def times(options):
    """The device's milliseconds of each pass, by CUDA graphs of calls on tensors that are in no cache."""
    kinds = [options.only] if options.only else ["half", "bfloat16"]
    layouts = [False, True] if options.device == "cuda" else [False]
    for kind, (channels, side, count), last in itertools.product(kinds, RESNET50, layouts):
        bytes_ = options.batch * channels * side * side * TYPES[kind].itemsize
        copies = uncached(bytes_)
        cases = [Case((options.batch, channels, side, side), kind, options.device, seed, last=last) for seed in range(copies)]
        forwards = [forward(case) for case in cases]
        saved = [run() for run in forwards]
        backwards = [backward(case, all_) for case, all_ in zip(cases, saved)]
        inferences = [inference(case) for case in cases]
        yield {"case": f"{kind} {channels} {side}", "count": count, "bytes": bytes_, "layout": "last" if last else "first",
               "forward": timed(forwards, options.device), "backward": timed(backwards, options.device),
               "inference": timed(inferences, options.device)}  # fmt: skip


def without_gradient(*tensors):
    return (tensor if tensor is None else tensor.detach() for tensor in tensors)


def forward(case):
    x, scale, bias = without_gradient(case.x, case.scale, case.bias)
    if case.is_native:
        return lambda: torch.native_batch_norm(x, scale, bias, *case.running, True, MOMENTUM, EPSILON)
    return lambda: torch.ops.aten.cudnn_batch_norm(x, scale, bias, *case.running, True, MOMENTUM, EPSILON)


def backward(case, saved):
    """dx, and with a scale and a bias their gradients."""
    x, scale = without_gradient(case.x, case.scale)
    if case.is_native:
        wanted = [True, scale is not None, scale is not None]
        run = lambda: torch.ops.aten.native_batch_norm_backward(  # noqa: E731
            case.dy, x, scale, *case.running, saved[1], saved[2], True, EPSILON, wanted)  # fmt: skip
        return lambda: run()[: sum(wanted)]
    return lambda: torch.ops.aten.cudnn_batch_norm_backward(
        x, case.dy, scale, *case.running, saved[1], saved[2], EPSILON, saved[3])  # fmt: skip


def inference(case):
    """y by the statistics that the case is given."""
    x, scale, bias = without_gradient(case.x, case.scale, case.bias)
    mean, variance = case.given
    if case.is_native:
        return lambda: torch.native_batch_norm(x, scale, bias, mean, variance, False, MOMENTUM, EPSILON)[0]
    return lambda: torch.ops.aten.cudnn_batch_norm(x, scale, bias, mean, variance, False, MOMENTUM, EPSILON)[0]


def uncached(bytes_):
    """How many tensors of so many bytes are so large together that a call finds none of its data in a cache."""
    return max(2, min(24, -(-MOST_CACHED // bytes_)))


def timed(runs, device, repeats=5):
    """Milliseconds of one of the runs: the median of several rounds of all."""
    if device == "cpu":
        runs[0]()
        return None

    def everything():
        for run in runs:
            run()

    graph, _ = calls.captured(everything, 1)
    graph.replay()
    return calls.timed(graph.replay, device, repeats) / len(runs)


def shapes(count):
    """Random inputs of BatchNorm1d, 2d and 3d, of at most 32 million elements."""
    choose = random.Random(4)
    while count:
        channels = choose.choice((1, 3, 8, 16, 24, 32, 48, 64, 96, 100, 128, 192, 256, 320, 512, 768, 1024, 2048))
        images = choose.choice((1, 2, 3, 4, 8, 16, 20, 32, 64, 100, 128, 256))
        dims = choose.choice((0, 1, 2, 2, 2, 3))
        sizes = [choose.choice((1, 2, 4, 5, 7, 8, 10, 14, 16, 17, 28, 32, 35, 56, 64, 112)) for _ in range(dims)]
        shape = (images, channels, *sizes)
        elements = torch.Size(shape).numel()
        if elements // channels > 1 and elements <= 32 << 20:
            count -= 1
            yield shape, choose.choice(tuple(TYPES))


def settled(step, device):
    """The device's milliseconds of a step after the library's choice."""
    for _ in range(60 if device == "cuda" else 1):
        step()
        if device == "cuda":
            # A trial reads its times once the device has come to them.
            torch.cuda.synchronize()
    return timed([step] * 4, device, 11)


def randomly(options):
    """The time of a step, forward and backward, of random shapes."""
    for shape, kind in shapes(options.cases):
        case = Case(shape, kind, options.device)
        yield {"case": f"{kind} {'x'.join(map(str, shape))}", "step": settled(case.step, options.device)}


def count_different(run, options):
    """How many of the runs have other bits than the first."""
    first = run()
    different = torch.zeros((), dtype=torch.int64, device=options.device)
    for _ in range(options.runs):
        different += torch.stack([(a != b).any() for a, b in zip(first, run())]).any()
    return different.item()


def repeated(options):
    for kind, shape in ((k, s) for k in TYPES for s in sizes(REPEATED, options)[:3]):
        case = Case(shape, kind, options.device)
        fore = forward(case)
        back = backward(case, fore())
        infer = inference(case)
        run = lambda fore=fore, back=back, infer=infer: [fore()[0], *back(), infer()]  # noqa: E731
        yield {"case": f"{kind} {'x'.join(map(str, shape))}", "different": count_different(run, options)}


def host(options):
    """The host's microseconds of a call on a small tensor: the median of a hundred rounds."""
    for kind in (kind for kind in TYPES if options.only in (None, kind)):
        # Parameters of the tensor's type, which is what PyTorch's own kernels take in each type.
        case = Case(SMALL[0], kind, options.device, own=True)
        fore = forward(case)
        for name, run in (("forward", fore), ("backward", backward(case, fore())), ("inference", inference(case))):
            settled(run, options.device)
            yield {"case": f"{kind} {name}", "microseconds": statistics.median(rounds(run, options))}


def rounds(run, options, count=100):
    wait = calls.waiting(options.device)
    for _ in range(count):
        wait()
        begin = time.perf_counter()
        for _ in range(options.runs // count):
            run()
        yield 1e6 * (time.perf_counter() - begin) / (options.runs // count)


PARTS = {"host": host, "times": times, "errors": errors, "random": randomly, "repeat": repeated}

if __name__ == "__main__":
    main()
