"""The networks of the table, in plain torch: images (N, 3, S, S) in, logits (N, classes) out; for a U-Net (N, 2, S, S).

They have no dropout: gradients then depend on arithmetic alone, and can be compared with float64.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

CLASSES = 1000


def alexnet():
    """Krizhevsky's "One weird trick for parallelizing convolutional neural networks" (arXiv 1404.5997)."""
    features = [
        *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
    ]
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(6), nn.Flatten(), *classifier(256 * 6 * 6))


def vgg16():
    """Configuration D of Simonyan and Zisserman (arXiv 1409.1556)."""
    layers, channels = [], 3
    for convolutions, width in [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)]:
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *classifier(512 * 7 * 7))


def classifier(features):
    return [
        *(nn.Linear(features, 4096), nn.ReLU(inplace=True)),
        *(nn.Linear(4096, 4096), nn.ReLU(inplace=True)),
        nn.Linear(4096, CLASSES),
    ]


def convolution(channels, width, size, stride=1):
    """A convolution and its normalisation, which makes the convolution's bias useless."""
    return [nn.Conv2d(channels, width, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(width)]


class Residual(nn.Module):
    """A block of He et al. (arXiv 1512.03385): adds `body` to its input, which is projected if shapes differ."""

    def __init__(self, body, channels, width, stride):
        super().__init__()
        self.body = nn.Sequential(*body)
        changes = stride != 1 or channels != width
        self.projection = nn.Sequential(*convolution(channels, width, 1, stride)) if changes else nn.Identity()

    def forward(self, x):
        return functional.relu(self.body(x) + self.projection(x))


def basic(channels, width, stride):
    body = [*convolution(channels, width, 3, stride), nn.ReLU(inplace=True), *convolution(width, width, 3)]
    return Residual(body, channels, width, stride)


def bottleneck(channels, width, stride):
    body = [
        *(*convolution(channels, width // 4, 1), nn.ReLU(inplace=True)),
        *(*convolution(width // 4, width // 4, 3, stride), nn.ReLU(inplace=True)),
        *convolution(width // 4, width, 1),
    ]
    return Residual(body, channels, width, stride)


def resnet(block, depths, widths):
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    channels = 64
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        for number in range(depth):
            layers.append(block(channels, width, 2 if stage > 0 and number == 0 else 1))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def resnet18():
    return resnet(basic, (2, 2, 2, 2), (64, 128, 256, 512))


def resnet50():
    return resnet(bottleneck, (3, 4, 6, 3), (256, 512, 1024, 2048))


class UNet(nn.Module):
    """Ronneberger et al. (arXiv 1505.04597); padded, so that the output is as large as the input, and normalised."""

    def __init__(self, widths=(64, 128, 256, 512, 1024), classes=2):
        super().__init__()

        def double(channels, width):
            parts = [*convolution(channels, width, 3), nn.ReLU(inplace=True)]
            return nn.Sequential(*parts, *convolution(width, width, 3), nn.ReLU(inplace=True))

        self.down = nn.ModuleList(double(a, b) for a, b in zip((3, *widths), widths))
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(wide, narrow, 2, stride=2) for wide, narrow in pairs)
        self.merge = nn.ModuleList(double(wide, narrow) for wide, narrow in pairs)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skipped = []
        for number, part in enumerate(self.down):
            x = part(functional.max_pool2d(x, 2) if number else x)
            skipped.append(x)
        skipped.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skipped.pop(), up(x)], dim=1))
        return self.head(x)


@dataclass(frozen=True)
class Network:
    make: Callable[[], nn.Module]
    batch: int  # images a step, on a GPU
    size: int  # their height and width
    classes: int = CLASSES
    per_pixel: bool = False  # a class for each pixel, not for each image
    # Mini-batches whose gradients are compared. If a sum rounds to the other side of a ReLU's 0, or of a maximum, a
    # gradient changes as much as by thousands of roundings. If few sums do so, a single mini-batch says little.
    compared: int = 4


NETWORKS = {
    "resnet50": Network(resnet50, 128, 224),
    "alexnet": Network(alexnet, 512, 224, compared=32),
    "resnet18": Network(resnet18, 256, 224),
    "vgg16": Network(vgg16, 64, 224),
    "unet": Network(UNet, 16, 256, classes=2, per_pixel=True, compared=16),
}
