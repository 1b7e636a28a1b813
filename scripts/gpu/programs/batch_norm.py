"""Batch normalization, in training and in inference, by PyTorch, plain or under the library: a JSON line for each case.

    python batch_norm.py times|errors|random|repeat [--device cpu] [--runs N]

Cases have the same data in each process, so that lines of two processes can be compared.
"""

import argparse
import json
import random

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
REPEATED = [(32, 64, 28, 28), (16, 128, 7, 7), (8, 16, 56, 56)]
# Enough buffers that a call finds none of its data in the cache of any GPU.
MOST_CACHED = 200 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--runs", type=int, default=10000, help="of each repeated case [10000]")
    parser.add_argument("--batch", type=int, default=128, help="images of the timed cases [128]")
    parser.add_argument("--cases", type=int, default=200, help="random ones [200]")
    parser.add_argument("--only", help="a type")
    options = parser.parse_args()
    for found in PARTS[options.part](options):
        print(json.dumps(found), flush=True)


class Case:
    """Tensors and parameters, from a seed."""

    def __init__(self, shape, kind, device, seed=1, apart=0.0, last=False):
        generator = torch.Generator(device).manual_seed(seed)
        normal = lambda *sizes: torch.randn(*sizes, device=device, generator=generator)  # noqa: E731
        channels = shape[1]
        means = normal(1, channels, *[1] * (len(shape) - 2)) * apart
        layout = torch.channels_last if last else torch.contiguous_format
        tensor = lambda values: values.to(TYPES[kind]).contiguous(memory_format=layout)  # noqa: E731
        self.x, self.dy = tensor(normal(*shape) + means), tensor(normal(*shape))
        self.scale, self.bias = normal(channels).abs() + 0.5, normal(channels)
        self.running = [torch.zeros(channels, device=device), torch.ones(channels, device=device)]
        # What inference is given, near what x has.
        variances = normal(channels).abs() + 0.5
        self.given = [means.flatten() + normal(channels) * 0.1, variances]
        for leaf in (self.x, self.scale, self.bias):
            leaf.requires_grad_()

    def step(self):
        """y, dx, and the gradients of scale and bias."""
        y = torch.nn.functional.batch_norm(self.x, *self.running, self.scale, self.bias, True, MOMENTUM, EPSILON)
        return y.detach(), *torch.autograd.grad(y, (self.x, self.scale, self.bias), self.dy)

    def exact(self):
        """The results of a first step in double precision, by name."""
        x, dy, scale, bias = (t.detach().double() for t in (self.x, self.dy, self.scale, self.bias))
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
        return {
            "inference y": inferred, "y": normal * wide(scale) + wide(bias), "dx": dx, "dscale": dscale, "dbias": dbias,
            "running mean": MOMENTUM * mean, "running variance": 1 - MOMENTUM + MOMENTUM * variance * count / max(count - 1, 1),
            "saved mean": mean, "saved inverse": inverse,
        }  # fmt: skip


def taken(device):
    """The types in which PyTorch calls cuDNN: in bfloat16 it has its own kernels."""
    return [kind for kind in TYPES if device == "cpu" or kind != "bfloat16"]


def errors(options):
    """The error of each result: the norm of its difference from double precision, over that of the exact result."""
    for kind, shape in ((k, s) for k in taken(options.device) for s in CHECKED if options.only in (None, k)):
        # In two bytes, numbers far from 0 have no deviation left.
        for apart in (0.0, 1e3, 1e5) if kind == "float" else (0.0, 4.0):
            case = Case(shape, kind, options.device, apart=apart)
            exact = case.exact()
            saved = forward(case, options.device)()
            gradients = backward(case, saved, options.device)()
            found = dict(zip(("y", "saved mean", "saved inverse"), saved))
            found |= dict(zip(("dx", "dscale", "dbias"), gradients))
            found |= dict(zip(("running mean", "running variance"), case.running))
            found["inference y"] = inference(case, options.device)()
            off = {name: calls.error(found[name], exact[name]) for name in found}
            yield {"case": f"{kind} {'x'.join(map(str, shape))} means {apart:g}", "errors": off}


def times(options):
    """The device's milliseconds of each pass, by CUDA graphs of calls on tensors that are in no cache."""
    kind = options.only or "half"
    layouts = [False, True] if options.device == "cuda" else [False]
    for (channels, side, count), last in ((r, l) for r in RESNET50 for l in layouts):  # noqa: E741
        bytes_ = options.batch * channels * side * side * TYPES[kind].itemsize
        copies = max(2, min(24, -(-MOST_CACHED // bytes_)))
        cases = [Case((options.batch, channels, side, side), kind, options.device, seed, last=last) for seed in range(copies)]
        forwards = [forward(case, options.device) for case in cases]
        saved = [run() for run in forwards]
        backwards = [backward(case, its, options.device) for case, its in zip(cases, saved)]
        inferences = [inference(case, options.device) for case in cases]
        yield {"case": f"{channels} {side}", "count": count, "bytes": bytes_, "layout": "last" if last else "first",
               "forward": timed(forwards, options.device), "backward": timed(backwards, options.device),
               "inference": timed(inferences, options.device)}  # fmt: skip


def forward(case, device):
    x, scale, bias = (t.detach() for t in (case.x, case.scale, case.bias))
    if device == "cpu":
        return lambda: torch.native_batch_norm(x, scale, bias, *case.running, True, MOMENTUM, EPSILON)
    return lambda: torch.ops.aten.cudnn_batch_norm(x, scale, bias, *case.running, True, MOMENTUM, EPSILON)


def backward(case, saved, device):
    x, scale = case.x.detach(), case.scale.detach()
    if device == "cpu":
        return lambda: torch.ops.aten.native_batch_norm_backward(
            case.dy, x, scale, *case.running, saved[1], saved[2], True, EPSILON, [True] * 3)  # fmt: skip
    return lambda: torch.ops.aten.cudnn_batch_norm_backward(
        x, case.dy, scale, *case.running, saved[1], saved[2], EPSILON, saved[3])  # fmt: skip


def inference(case, device):
    """y by the statistics that the case is given."""
    x, scale, bias = (t.detach() for t in (case.x, case.scale, case.bias))
    mean, variance = case.given
    if device == "cpu":
        return lambda: torch.native_batch_norm(x, scale, bias, mean, variance, False, MOMENTUM, EPSILON)[0]
    return lambda: torch.ops.aten.cudnn_batch_norm(x, scale, bias, mean, variance, False, MOMENTUM, EPSILON)[0]


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
            yield shape, choose.choice(("half", "float"))


def randomly(options):
    """The device's milliseconds of a step, forward and backward, of random shapes, after the library's choice."""
    for shape, kind in shapes(options.cases):
        case = Case(shape, kind, options.device)
        for _ in range(60 if options.device == "cuda" else 1):
            case.step()
            if options.device == "cuda":
                # A trial reads its times once the device has come to them.
                torch.cuda.synchronize()
        yield {"case": f"{kind} {'x'.join(map(str, shape))}", "step": timed([case.step] * 4, options.device, 11)}


def repeated(options):
    """How many of the runs have other bits than the first."""
    for kind, shape in ((k, s) for k in taken(options.device) for s in REPEATED):
        case = Case(shape, kind, options.device)
        fore = forward(case, options.device)
        back = backward(case, fore(), options.device)
        infer = inference(case, options.device)
        first = [fore()[0], *back(), infer()]
        different = torch.zeros((), dtype=torch.int64, device=options.device)
        for _ in range(options.runs):
            now = [fore()[0], *back(), infer()]
            different += torch.stack([(a != b).any() for a, b in zip(first, now)]).any()
        yield {"case": f"{kind} {'x'.join(map(str, shape))}", "different": different.item()}


PARTS = {"times": times, "errors": errors, "random": randomly, "repeat": repeated}

if __name__ == "__main__":
    main()
