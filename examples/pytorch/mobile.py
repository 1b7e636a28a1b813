"""EfficientNet-B0 and MobileNetV3-Large: inverted residuals, whose middle is a depthwise convolution."""

from functools import partial

from torch import nn
from torch.nn import functional


def unit(channels, width, kernel, stride, activation, groups=1):
    """A convolution that keeps the size but for its stride, normalised. `activation` may be None."""
    layers = [nn.Conv2d(channels, width, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(width)]
    return layers + ([activation(inplace=True)] if activation else [])


class Gate(nn.Module):
    """Squeeze and excitation (Hu et al., arXiv 1709.01507): each channel times a number from the means of all."""

    def __init__(self, channels, squeezed, activation, gate):
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.activation, self.gate = activation(), gate()

    def forward(self, x):
        return x * self.gate(self.excite(self.activation(self.squeeze(functional.adaptive_avg_pool2d(x, 1)))))


class InvertedResidual(nn.Module):
    def __init__(self, channels, expanded, width, kernel, stride, activation, gate):
        super().__init__()
        layers = unit(channels, expanded, 1, 1, activation) if expanded != channels else []
        layers += unit(expanded, expanded, kernel, stride, activation, groups=expanded)
        layers += [gate(expanded)] if gate else []
        self.layers = nn.Sequential(*layers, *unit(expanded, width, 1, 1, None))
        self.is_residual = stride == 1 and channels == width

    def forward(self, x):
        return x + self.layers(x) if self.is_residual else self.layers(x)


def efficientnet_b0(classes):
    """Tan and Le (arXiv 1905.11946), without stochastic depth."""
    layers, channels = unit(3, 32, 3, 2, nn.SiLU), 32
    for expansion, kernel, stride, width, depth in (
        (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ):  # fmt: skip
        for block in range(depth):
            gate = partial(Gate, squeezed=channels // 4, activation=nn.SiLU, gate=nn.Sigmoid)
            its = stride if block == 0 else 1
            layers.append(InvertedResidual(channels, expansion * channels, width, kernel, its, nn.SiLU, gate))
            channels = width
    layers += [*unit(channels, 1280, 1, 1, nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes)]
    return nn.Sequential(*layers)


def of_eight(channels):
    """The nearest multiple of 8, or the next one where that is less than nine tenths."""
    nearest = int(channels + 4) // 8 * 8
    return nearest if nearest >= 0.9 * channels else nearest + 8


def mobilenet_v3(classes):
    """The large one of Howard et al. (arXiv 1905.02244), table 1."""
    layers, channels = unit(3, 16, 3, 2, nn.Hardswish), 16
    for kernel, expanded, width, has_gate, activation, stride in (
        (3, 16, 16, False, nn.ReLU, 1),
        (3, 64, 24, False, nn.ReLU, 2),
        (3, 72, 24, False, nn.ReLU, 1),
        (5, 72, 40, True, nn.ReLU, 2),
        (5, 120, 40, True, nn.ReLU, 1),
        (5, 120, 40, True, nn.ReLU, 1),
        (3, 240, 80, False, nn.Hardswish, 2),
        (3, 200, 80, False, nn.Hardswish, 1),
        (3, 184, 80, False, nn.Hardswish, 1),
        (3, 184, 80, False, nn.Hardswish, 1),
        (3, 480, 112, True, nn.Hardswish, 1),
        (3, 672, 112, True, nn.Hardswish, 1),
        (5, 672, 160, True, nn.Hardswish, 2),
        (5, 960, 160, True, nn.Hardswish, 1),
        (5, 960, 160, True, nn.Hardswish, 1),
    ):
        gate = partial(Gate, squeezed=of_eight(expanded / 4), activation=nn.ReLU, gate=nn.Hardsigmoid)
        gate = gate if has_gate else None
        layers.append(InvertedResidual(channels, expanded, width, kernel, stride, activation, gate))
        channels = width
    layers += [*unit(channels, 960, 1, 1, nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(960, 1280), nn.Hardswish(inplace=True), nn.Linear(1280, classes))
