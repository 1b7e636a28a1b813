"""A single convolution of PyTorch's, with random data, and its two gradients."""

import torch
from torch.nn import functional

import finds_harness  # noqa: F401
from harness import calls

CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
# The directions, and which gradients each asks for.
GRADIENTS = {"BD": [True, False, False], "BF": [False, True, False]}


class Single:
    """A convolution of x (images, channels, sizes…) by a filter, in a type of `harness.calls.TYPES`."""

    def __init__(self, x, outputs, filter, stride, padding, kind, device, layout=torch.contiguous_format, dilation=1, groups=1):
        calls.allow_tf32(kind == "tf32")
        generator = torch.Generator(device).manual_seed(1)
        normal = lambda *sizes: torch.randn(*sizes, device=device, generator=generator)  # noqa: E731
        of_type = lambda tensor: tensor.to(calls.TYPES[kind]).contiguous(memory_format=layout)  # noqa: E731
        self.axes, self.groups = len(filter), groups
        for_each = lambda number: [number] * self.axes if isinstance(number, int) else list(number)  # noqa: E731
        self.stride, self.padding, self.dilation = map(for_each, (stride, padding, dilation))
        self.x, self.w = of_type(normal(*x)), of_type(normal(outputs, x[1] // groups, *filter) * 0.02)
        # The shape of y, without a convolution on the device.
        shapes = (torch.empty(its.shape, device="meta") for its in (self.x, self.w))
        y = CONVOLUTIONS[self.axes](*shapes, None, self.stride, self.padding, self.dilation, self.groups)
        self.dy = of_type(normal(*y.shape))

    def forward(self):
        return CONVOLUTIONS[self.axes](self.x, self.w, None, self.stride, self.padding, self.dilation, self.groups)

    def gradient(self, direction):
        found = torch.ops.aten.convolution_backward(
            self.dy, self.x, self.w, None, self.stride, self.padding, self.dilation, False, [0] * self.axes, self.groups,
            GRADIENTS[direction])  # fmt: skip
        return found[0] if direction == "BD" else found[1]

    def runs(self):
        return {"F": self.forward} | {way: lambda way=way: self.gradient(way) for way in GRADIENTS}
