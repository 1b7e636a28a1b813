"""Convolutions and transposed convolutions, with the gradients of input, filter and bias."""

import itertools
import math

import torch
import torch.nn.functional as F
from harness.calls import TYPES, allow_tf32

from . import Normal, Sized, in_double, replace

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def exact_convolution(x, w, stride, padding, dilation, groups):
    """x [N, C, ...] with w [K, C / groups, ...]: for each place of the filter, a product of all pixels there."""
    x = F.pad(x, [p for p in reversed(padding) for _ in range(2)])
    sizes = zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    out = [(size - d * (f - 1) - 1) // s + 1 for size, f, s, d in sizes]
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    y = 0
    for place in itertools.product(*map(range, w.shape[3:])):
        pixels = x
        for axis, (at, s, d, count) in enumerate(zip(place, stride, dilation, out, strict=True), 2):
            index = at * d + s * torch.arange(count, device=x.device)
            pixels = pixels.index_select(axis, index)
        pixels = pixels.reshape(len(x), groups, w.shape[2], math.prod(out))
        y = y + torch.einsum("gkc,ngcp->ngkp", w[(slice(None),) * 3 + place], pixels)
    return y.reshape(len(x), -1, *out)


def exact_transposed(x, w, stride, padding, dilation, groups, shape):
    """The transposed convolution, whose result has this shape: it is the gradient of a convolution's input."""
    zeros = x.new_zeros(shape).requires_grad_()
    y = exact_convolution(zeros, w, stride, padding, dilation, groups)
    return torch.autograd.grad(y, zeros, x, create_graph=True)[0]


class Subject(Sized):
    def __init__(self, case, device):
        self.case = case
        normal, kind = Normal(case, device), TYPES[case["precision"]]
        dims, groups = len(case["filter"]), case["groups"]
        channels = case["input"][1]
        ends = (channels, case["channels"]) if case["transposed"] else (case["channels"], channels)
        weight = [ends[0], ends[1] // groups, *case["filter"]]
        self.terms = math.prod(weight[1:])
        allow_tf32(case["precision"] == "tf32")
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = case["benchmark"], case["deterministic"]
        self.where = [case[name] for name in ("stride", "padding", "dilation")]
        layout = LAST[dims] if case["layout"] == "last" else torch.contiguous_format
        places = zip(case["input"][2:], case["filter"], *self.where, strict=True)
        if case["transposed"]:
            self.out = [(x - 1) * s - 2 * p + d * (f - 1) + 1 for x, f, s, p, d in places]
        else:
            self.out = [(x + 2 * p - d * (f - 1) - 1) // s + 1 for x, f, s, p, d in places]
        self.out = [case["input"][0], case["channels"], *self.out]

        def data():
            x, w = normal(*case["input"], dtype=kind), normal(*weight, scale=self.terms**-0.5, dtype=kind)
            dy = normal(*self.out, dtype=kind)
            bias = [normal(case["channels"], dtype=kind)] if case["bias"] else []
            return [x.to(memory_format=layout), w.to(memory_format=layout), dy.to(memory_format=layout), *bias]

        self.data = [data(), data()]
        self.live = [tensor.clone(memory_format=torch.preserve_format) for tensor in self.data[0]]
        for leaf in (*self.live[:2], *self.live[3:]):
            leaf.requires_grad_()

    def renew(self, which):
        replace(self.live, self.data[which])

    def run(self):
        x, w, dy, *bias = self.live
        stride, padding, dilation = self.where
        if self.case["transposed"]:
            convolve = TRANSPOSED[len(stride)]
            y = convolve(x, w, *(bias or [None]), stride, padding, 0, self.case["groups"], dilation)
        else:
            y = CONVOLVE[len(stride)](x, w, *(bias or [None]), stride, padding, dilation, self.case["groups"])
        return self._named(y, x, w, dy, bias)

    def _named(self, y, x, w, dy, bias):
        gradients = torch.autograd.grad(y, [x, w, *bias], dy)
        return dict(zip(("y", "dx", "dw", "db"), (y.detach(), *gradients), strict=False))

    def exact(self, which):
        x, w, dy, *bias = self.data[which]
        x, w, *bias = in_double(x, w, *bias)
        if self.case["transposed"]:
            y = exact_transposed(x, w, *self.where, self.case["groups"], self.out)
        else:
            y = exact_convolution(x, w, *self.where, self.case["groups"])
        if bias:
            y = y + bias[0].view(-1, *[1] * len(self.where[0]))
        return self._named(y, x, w, dy.double(), bias)

    def traits(self, name):
        pixels = self.case["input"][0] * max(math.prod(self.case["input"][2:]), math.prod(self.out[2:]))
        depth = pixels if name in ("dw", "db") else self.terms * max(1, self.case["channels"] // self.case["input"][1])
        # Benchmarking chooses among engines by times, which may round to TF32 where plain's did not.
        return {"precision": self.case["precision"], "depth": depth, "chain": 1, "goes_by_plain": not self.case["benchmark"]}
