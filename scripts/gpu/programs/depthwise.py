"""Depthwise convolutions of PyTorch's own, plain or under the library: a JSON line for each case.

    python depthwise.py errors|times [--device cpu] [--cases N]

Cases have the same data in each process, so that lines of two processes can be compared. On a CPU PyTorch has no such
kernel: there the operator is called by its name, and only the library can run it.
"""

import argparse
import json
import random

import batch_norm
import torch
from harness import calls

# Images, channels, rows and columns, and for volumes slices before them; the filter's sizes; the stride: ConvNeXt-T's,
# MobileNet's, EfficientNet's, a Conformer's sequences, a large filter, and volumes of MedNeXt and of video networks.
LAYERS = [((128, 96, 56, 56), (7, 7), 1), ((128, 192, 28, 28), (7, 7), 1), ((128, 384, 14, 14), (7, 7), 1),
          ((128, 768, 7, 7), (7, 7), 1), ((128, 64, 112, 112), (3, 3), 1), ((128, 96, 112, 112), (3, 3), 2),
          ((128, 144, 56, 56), (3, 3), 2), ((128, 240, 28, 28), (5, 5), 2), ((128, 672, 14, 14), (5, 5), 1),
          ((128, 672, 14, 14), (5, 5), 2), ((32, 512, 1, 1000), (1, 31), 1),
          ((32, 64, 56, 56), (31, 31), 1), ((2, 32, 96, 96, 96), (3, 3, 3), 1), ((2, 64, 48, 48, 48), (5, 5, 5), 1),
          ((8, 108, 16, 56, 56), (3, 3, 3), 1)]  # fmt: skip
PASSES = ("forward", "input gradient", "filter gradient")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--cases", type=int, default=150, help="random ones [150]")
    options = parser.parse_args()
    batch_norm.begin(options.device)
    calls.allow_tf32(False)
    for found in PARTS[options.part](options):
        print(json.dumps(found), flush=True)


def cases(options):
    """Random convolutions, most of them small, and one of four of volumes."""
    choose = random.Random(7)
    while options.cases:
        axes = 3 if choose.random() < 0.25 else 2
        square = choose.random() < 0.7
        largest = (1, 3, 5) if axes == 3 else (1, 3, 5, 7, 9, 31)
        filter_ = [choose.choice((3, 5, 7)[: 5 - axes])] * axes if square else [choose.choice(largest) for _ in range(axes)]
        stride, dilation = ([choose.choice(of)] * axes for of in ((1, 1, 1, 2, 3), (1, 1, 1, 2, 3)))
        padding = [choose.choice((0, (size - 1) * apart // 2)) for size, apart in zip(filter_, dilation)]
        slices = [choose.choice((1, 3, 8))] if axes == 3 else []
        planes = [choose.choice(of) for of in ((1, 7, 9, 14, 28, 33), (7, 9, 14, 28, 57, 100))]
        sizes = [choose.choice(of) for of in ((1, 2, 5, 16), (1, 3, 8, 33, 96))] + slices + planes
        each, with_bias, kind = choose.choice((1, 1, 1, 2)), choose.random() < 0.5, choose.choice(tuple(batch_norm.TYPES))
        reaches = [(size - 1) * apart + 1 for size, apart in zip(filter_, dilation)]
        if all(size + 2 * more >= reach for size, more, reach in zip(sizes[2:], padding, reaches)):
            options.cases -= 1
            yield sizes, filter_, stride, padding, dilation, each, with_bias, kind


def errors(options):
    """The error of each result: the norm of its difference from double precision, over that of the exact result."""
    for number, (sizes, filter_, stride, padding, dilation, each, with_bias, kind) in enumerate(cases(options)):
        channels, its = sizes[1], (stride, padding, dilation)
        generator = torch.Generator().manual_seed(number)
        normal = lambda *of: torch.randn(*of, generator=generator).to(batch_norm.TYPES[kind]).to(options.device)  # noqa: E731
        x, weight = normal(*sizes), normal(channels * each, 1, *filter_)
        bias = normal(channels * each) if with_bias else None
        exact = results([x.double(), weight.double(), bias if bias is None else bias.double()], its, channels, generator, None)
        # A network may permute its images: what comes to the operator then has the channels last.
        last = torch.channels_last if len(filter_) == 2 else torch.channels_last_3d
        layout = last if number % 2 else torch.contiguous_format
        if options.device == "cpu":
            x = x.contiguous(memory_format=layout)
            operator = torch.ops.aten._conv_depthwise2d if len(filter_) == 2 else torch.ops.aten.conv_depthwise3d
            found = {"y": operator(x, weight, filter_, bias, *its)}
        else:
            dy = exact.pop("dy").contiguous(memory_format=layout)
            found = results([x, weight, bias], its, channels, generator, dy)
        name = (f"{kind} {times_sign(sizes)}, filters of {times_sign(filter_)}, stride {stride[0]}, padding "
                f"{times_sign(padding)}, dilation {dilation[0]}, {each} each{', bias' if with_bias else ''}")  # fmt: skip
        yield {"case": name, "kind": kind, "errors": {what: calls.error(found[what], exact[what]) for what in found}}


def times_sign(sizes):
    return "x".join(map(str, sizes))


def convolution(x):
    return torch.nn.functional.conv2d if x.dim() == 4 else torch.nn.functional.conv3d


def results(tensors, window, groups, generator, dy):
    """y and the gradients, by a gradient of y that is drawn unless it is given."""
    leaves = [tensor if tensor is None else tensor.detach().requires_grad_() for tensor in tensors]
    y = convolution(leaves[0])(*leaves, *window, groups)
    drawn = dy is None
    if drawn:
        # As the shorter types hold it.
        dy = torch.randn(*y.shape, generator=generator).bfloat16().half().to(y.device)
    present = [leaf for leaf in leaves if leaf is not None]
    found = dict(zip(("dx", "dw", "db"), torch.autograd.grad(y, present, dy.to(y.dtype))))
    return {"y": y.detach()} | found | ({"dy": dy} if drawn else {})


def times(options):
    """The device's milliseconds of each pass, after the library's choice."""
    for sizes, filter_, stride in LAYERS:
        channels = sizes[1]
        for kind, type_ in batch_norm.TYPES.items():
            x = torch.randn(*sizes, device=options.device).to(type_).requires_grad_()
            weight = torch.randn(channels, 1, *filter_, device=options.device).to(type_).requires_grad_()
            bias, padding = torch.zeros(channels, device=options.device, dtype=type_), [size // 2 for size in filter_]
            forward = lambda: convolution(x)(x, weight, bias, stride, padding, 1, channels)  # noqa: E731
            y = forward()
            dy = torch.randn_like(y)
            backward = lambda of: lambda: torch.autograd.grad(y, of, dy, retain_graph=True)  # noqa: E731
            passes = dict(zip(PASSES, (torch.no_grad()(forward), backward(x), backward(weight))))
            for run in passes.values():
                for _ in range(60):
                    run()
                    torch.cuda.synchronize()
            yield {"case": f"{kind} {times_sign(sizes)} {times_sign(filter_)} {stride}", "kind": kind, "bytes": (x.numel() + y.numel()) * type_.itemsize,
                   "times": {name: calls.on_device(run, options.device, 11) for name, run in passes.items()}}  # fmt: skip


PARTS = {"errors": errors, "times": times}

if __name__ == "__main__":
    main()
