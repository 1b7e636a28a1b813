"""The networks of the table, in plain torch: images (N, 3, S, S) in, logits (N, classes) out; for a U-Net (N, 2, S, S).
The 3-D networks take clips (N, 3, frames, S, S), or volumes of other channels, whose logits have a class for each voxel.
Those of latent diffusion take latent images (N, 4, S, S); the channels of their results stand for classes, too.

They have no dropout: gradients then depend on arithmetic alone, and can be compared with float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional

import diffusion
import mobile

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


def convolution(channels, width, size, stride=1, groups=1):
    """A convolution and its normalisation, which makes the convolution's bias useless."""
    return [
        nn.Conv2d(channels, width, size, stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(width),
    ]


class Residual(nn.Module):
    """A block of He et al. (arXiv 1512.03385): adds `body` to its input, to which `shortcut` gives the same shape."""

    def __init__(self, body, shortcut):
        super().__init__()
        self.body = nn.Sequential(*body)
        self.shortcut = shortcut

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def projection(channels, width, stride):
    """The input, projected if shapes differ."""
    changes = stride != 1 or channels != width
    return nn.Sequential(*convolution(channels, width, 1, stride)) if changes else nn.Identity()


def basic(channels, width, stride):
    body = [*convolution(channels, width, 3, stride), nn.ReLU(inplace=True), *convolution(width, width, 3)]
    return Residual(body, projection(channels, width, stride))


def bottleneck(channels, width, stride, narrowing=4, groups=1):
    narrow = width // narrowing
    body = [
        *(*convolution(channels, narrow, 1), nn.ReLU(inplace=True)),
        *(*convolution(narrow, narrow, 3, stride, groups), nn.ReLU(inplace=True)),
        *convolution(narrow, width, 1),
    ]
    return Residual(body, projection(channels, width, stride))


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


def resnext50():
    """32x4d of Xie et al. (arXiv 1611.05431): 32 groups, of 4 channels each in the first stage."""
    return resnet(partial(bottleneck, narrowing=2, groups=32), (3, 4, 6, 3), (256, 512, 1024, 2048))


def wide_resnet50():
    """50-2 of Zagoruyko and Komodakis (arXiv 1605.07146): the 3×3 convolutions have twice the channels."""
    return resnet(partial(bottleneck, narrowing=2), (3, 4, 6, 3), (256, 512, 1024, 2048))


class Excited(nn.Module):
    """Squeeze and excitation (Hu et al., arXiv 1709.01507): scales each channel by what the means of all say."""

    def __init__(self, channels, narrow):
        super().__init__()
        layers = (nn.Conv2d(channels, narrow, 1), nn.ReLU(inplace=True), nn.Conv2d(narrow, channels, 1), nn.Sigmoid())
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), *layers)

    def forward(self, x):
        return x * self.scale(x)


def regnet_y():
    """RegNetY-1.6GF of Radosavovic et al. (arXiv 2003.13678): groups of 24 channels."""

    def block(channels, width, stride):
        body = [
            *(*convolution(channels, width, 1), nn.ReLU(inplace=True)),
            *(*convolution(width, width, 3, stride, groups=width // 24), nn.ReLU(inplace=True)),
            *(Excited(width, channels // 4), *convolution(width, width, 1)),
        ]
        return Residual(body, projection(channels, width, stride))

    layers, channels = [*convolution(3, 32, 3, 2), nn.ReLU(inplace=True)], 32
    for depth, width in zip((2, 6, 17, 2), (48, 120, 336, 888), strict=True):
        for number in range(depth):
            layers.append(block(channels, width, 2 if number == 0 else 1))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


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


class Concatenated(nn.Module):
    """The results of branches with one input, along the channels."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def inception_v3():
    """Szegedy et al. (arXiv 1512.00567) as TensorFlow's authors published it, without the auxiliary classifier."""

    def unit(channels, width, size, stride=1, padded=True):
        sizes = (size, size) if isinstance(size, int) else size
        padding = tuple(extent // 2 for extent in sizes) if padded else 0
        return [
            *(nn.Conv2d(channels, width, sizes, stride, padding, bias=False), nn.BatchNorm2d(width)),
            nn.ReLU(inplace=True),
        ]

    def chain(channels, *widths_and_sizes):
        layers = []
        for width, size in widths_and_sizes:
            layers += unit(channels, width, size)
            channels = width
        return nn.Sequential(*layers)

    def pooled(channels, width):
        return nn.Sequential(nn.AvgPool2d(3, 1, padding=1), *unit(channels, width, 1))

    def halved(branch, channels, width):
        """The branch, and at its end a convolution that halves the image."""
        return nn.Sequential(*branch, *unit(channels, width, 3, 2, padded=False))

    def at_35(channels, width):
        return Concatenated(
            chain(channels, (64, 1)),
            chain(channels, (48, 1), (64, 5)),
            chain(channels, (64, 1), (96, 3), (96, 3)),
            pooled(channels, width),
        )

    def at_17(width):
        row, column = (1, 7), (7, 1)
        return Concatenated(
            chain(768, (192, 1)),
            chain(768, (width, 1), (width, row), (192, column)),
            chain(768, (width, 1), (width, column), (width, row), (width, column), (192, row)),
            pooled(768, 192),
        )

    def at_8(channels):
        def fork():
            return Concatenated(chain(384, (384, (1, 3))), chain(384, (384, (3, 1))))

        return Concatenated(
            chain(channels, (320, 1)),
            nn.Sequential(chain(channels, (384, 1)), fork()),
            nn.Sequential(chain(channels, (448, 1), (384, 3)), fork()),
            pooled(channels, 192),
        )

    stem = [
        *(*unit(3, 32, 3, 2, padded=False), *unit(32, 32, 3, padded=False), *unit(32, 64, 3), nn.MaxPool2d(3, 2)),
        *(*unit(64, 80, 1), *unit(80, 192, 3, padded=False), nn.MaxPool2d(3, 2)),
    ]
    to_17 = Concatenated(halved([], 288, 384), halved(chain(288, (64, 1), (96, 3)), 96, 96), nn.MaxPool2d(3, 2))
    squared = chain(768, (192, 1), (192, (1, 7)), (192, (7, 1)))
    to_8 = Concatenated(halved(chain(768, (192, 1)), 192, 320), halved(squared, 192, 192), nn.MaxPool2d(3, 2))
    return nn.Sequential(
        *(*stem, at_35(192, 32), at_35(256, 64), at_35(288, 64)),
        *(to_17, at_17(128), at_17(160), at_17(160), at_17(192)),
        *(to_8, at_8(1280), at_8(2048)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, CLASSES)),
    )


def densenet121(growth=32):
    """Huang et al. (arXiv 1608.06993): each layer reads what all before it in its block have written."""

    def unit(channels, width, size):
        return [
            *(nn.BatchNorm2d(channels), nn.ReLU(inplace=True)),
            nn.Conv2d(channels, width, size, padding=size // 2, bias=False),
        ]

    channels = 2 * growth
    layers = [*convolution(3, channels, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    for block, depth in enumerate((6, 12, 24, 16)):
        if block > 0:
            layers += [*unit(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range(depth):
            layer = nn.Sequential(*unit(channels, 4 * growth, 1), *unit(4 * growth, growth, 3))
            layers.append(Concatenated(nn.Identity(), layer))
            channels += growth
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of (N, C, H, W), written out as the authors of ConvNeXt do.

    nn.LayerNorm between two permutations would return channels-last tensors, and make a network in NCHW run on those.
    """

    def __init__(self, channels, epsilon=1e-6):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.epsilon = epsilon

    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        normal = centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + self.epsilon)
        return self.weight[:, None, None] * normal + self.bias[:, None, None]


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.pointwise = nn.Sequential(
            *(nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        )
        # The paper begins at 1e-6. Half's gradients of the block would then be 0, with nothing to compare.
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        inner = self.scale * self.pointwise(self.depthwise(x).permute(0, 2, 3, 1))
        return x + inner.permute(0, 3, 1, 2)


def convnext_t():
    """Liu et al. (arXiv 2201.03545), without stochastic depth."""
    layers, channels = [], 3
    for stage, (depth, width) in enumerate(zip((3, 3, 9, 3), (96, 192, 384, 768), strict=True)):
        if stage == 0:
            layers += [nn.Conv2d(channels, width, 4, stride=4), ChannelNorm(width)]
        else:
            layers += [ChannelNorm(channels), nn.Conv2d(channels, width, 2, stride=2)]
        layers += [ConvNeXtBlock(width) for _ in range(depth)]
        channels = width
    head = (nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, CLASSES))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *head)


class Widened(nn.Module):
    """The shortcut of type A: each `stride`-th value in each direction, with zeros as the further channels."""

    def __init__(self, more, stride):
        super().__init__()
        self.more, self.stride = more, stride

    def forward(self, x):
        step = self.stride
        return functional.pad(x[:, :, ::step, ::step, ::step], (0, 0, 0, 0, 0, 0, 0, self.more))


def resnet18_3d(classes=400):
    """Hara et al. (arXiv 1711.09577), with the classes of Kinetics."""

    def unit(channels, width, size, stride):
        return [nn.Conv3d(channels, width, size, stride, size // 2, bias=False), nn.BatchNorm3d(width)]

    def block(channels, width, stride):
        body = [*unit(channels, width, 3, stride), nn.ReLU(inplace=True), *unit(width, width, 3, 1)]
        return Residual(body, nn.Identity() if channels == width else Widened(width - channels, stride))

    layers = [*unit(3, 64, 7, (1, 2, 2)), nn.ReLU(inplace=True), nn.MaxPool3d(3, 2, padding=1)]
    channels = 64
    for width in (64, 128, 256, 512):
        layers += [block(channels, width, 1 if channels == width else 2), block(width, width, 1)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(channels, classes))


class NnUNet(nn.Module):
    """The 3-D U-Net that Isensee et al. (nnU-Net, Nature Methods 2021) configure for patches of 128³: two convolutions a
    stage, strides instead of pooling, instance normalisation. It returns logits at all resolutions but the lowest, the
    highest first, for deep supervision."""

    def __init__(self, widths=(32, 64, 128, 256, 320, 320), classes=3):
        super().__init__()

        def stage(channels, width, stride):
            layers = []
            for its_channels, its_stride in ((channels, stride), (width, 1)):
                layers += [nn.Conv3d(its_channels, width, 3, its_stride, padding=1),
                           nn.InstanceNorm3d(width, affine=True), nn.LeakyReLU(0.01, inplace=True)]  # fmt: skip
            return nn.Sequential(*layers)

        down = zip((1, *widths), widths)
        self.down = nn.ModuleList(stage(a, b, 1 if number == 0 else 2) for number, (a, b) in enumerate(down))
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose3d(wide, narrow, 2, stride=2) for wide, narrow in pairs)
        self.merge = nn.ModuleList(stage(2 * narrow, narrow, 1) for _, narrow in pairs)
        self.heads = nn.ModuleList(nn.Conv3d(narrow, classes, 1) for _, narrow in pairs)

    def forward(self, x):
        skipped = []
        for part in self.down:
            x = part(x)
            skipped.append(x)
        skipped.pop()
        found = []
        for up, merge, head in zip(self.up, self.merge, self.heads):
            x = merge(torch.cat([up(x), skipped.pop()], dim=1))
            found.append(head(x))
        return tuple(reversed(found))


class SegResNet(nn.Module):
    """Myronenko's network (arXiv 1810.11654) without its autoencoder, as MONAI configures it: group normalisation before
    each convolution, trilinear interpolation upwards."""

    def __init__(self, width=32, blocks=(1, 2, 2, 4), classes=3, channels=4):
        super().__init__()

        def convolution(channels, width, size=3, stride=1):
            return nn.Conv3d(channels, width, size, stride, padding=size // 2, bias=False)

        def block(width):
            body = []
            for _ in range(2):
                body += [nn.GroupNorm(8, width), nn.ReLU(inplace=True), convolution(width, width)]
            return Added(*body)

        widths = [width * 2**level for level in range(len(blocks))]
        self.first = convolution(channels, width)
        self.down = nn.ModuleList(
            nn.Sequential(*([convolution(its // 2, its, stride=2)] if level else []), *(block(its) for _ in range(depth)))
            for level, (its, depth) in enumerate(zip(widths, blocks, strict=True))
        )
        upwards = nn.Upsample(scale_factor=2, mode="trilinear", align_corners=False)
        self.up = nn.ModuleList(nn.Sequential(convolution(2 * its, its, 1), upwards) for its in widths[-2::-1])
        self.merge = nn.ModuleList(block(its) for its in widths[-2::-1])
        self.head = nn.Sequential(nn.GroupNorm(8, width), nn.ReLU(inplace=True), nn.Conv3d(width, classes, 1))

    def forward(self, x):
        x, skipped = self.first(x), []
        for part in self.down:
            x = part(x)
            skipped.append(x)
        skipped.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(up(x) + skipped.pop())
        return self.head(x)


class Added(nn.Sequential):
    """Adds its result to its input."""

    def forward(self, x):
        return x + super().forward(x)


@dataclass(frozen=True)
class Network:
    make: Callable[[], nn.Module]
    batch: int  # images a step, on a GPU
    size: int  # their height and width
    classes: int = CLASSES
    per_pixel: bool = False  # a class for each pixel or voxel, not for each image
    # Mini-batches whose gradients are compared. If a sum rounds to the other side of a ReLU's 0, or of a maximum, a
    # gradient changes as much as by thousands of roundings. If few sums do so, a single mini-batch says little.
    compared: int = 4
    frames: int | None = None  # of a clip, if the network takes clips
    is_volume: bool = False  # as many slices as rows and columns
    channels: int = 3  # of an image
    least: int = 32  # the least height and width that it takes
    multiple: int = 1  # height and width must be a multiple of this
    enlarges: int = 1  # the pixels of its result for each of the image's, in each direction

    def places(self, size):
        """The sizes of an image, a clip or a volume of this height and width."""
        slices = size if self.is_volume else self.frames
        return (size, size) if slices is None else (slices, size, size)

    @property
    def has_slices(self):
        return len(self.places(1)) > 2


NETWORKS = {
    "resnet50": Network(resnet50, 128, 224),
    "alexnet": Network(alexnet, 512, 224, compared=32, least=63),
    "resnet18": Network(resnet18, 256, 224),
    "vgg16": Network(vgg16, 64, 224),
    "unet": Network(UNet, 16, 256, classes=2, per_pixel=True, compared=16, multiple=16),
    "resnext50": Network(resnext50, 128, 224),
    "wide_resnet50": Network(wide_resnet50, 96, 224),
    "regnet_y": Network(regnet_y, 128, 224),
    "inception_v3": Network(inception_v3, 128, 299, least=75),
    "densenet121": Network(densenet121, 128, 224),
    "convnext_t": Network(convnext_t, 128, 224),
    "efficientnet_b0": Network(partial(mobile.efficientnet_b0, CLASSES), 128, 224),
    "mobilenet_v3": Network(partial(mobile.mobilenet_v3, CLASSES), 128, 224),
    "resnet18_3d": Network(resnet18_3d, 64, 112, classes=400, frames=16),
    "nnunet_3d": Network(
        NnUNet, 2, 128, classes=3, per_pixel=True, compared=2, is_volume=True, channels=1, least=64, multiple=32
    ),
    "segresnet": Network(
        SegResNet, 2, 128, classes=3, per_pixel=True, compared=2, is_volume=True, channels=4, least=8, multiple=8
    ),
    "vae_decoder": Network(
        diffusion.vae_decoder, 4, 64, classes=3, per_pixel=True, compared=2, channels=4, least=4, enlarges=8
    ),
    "latent_unet": Network(
        diffusion.LatentUNet, 4, 64, classes=4, per_pixel=True, compared=2, channels=4, least=8, multiple=8
    ),
}


def settle(parser, options, tiny=False):
    """Fills in the batch and the size that the command line leaves out: the network's own, or tiny ones. Ends the
    program if the network does not take the size."""
    network = NETWORKS[options.network]
    options.batch = options.batch or (2 if tiny else network.batch)
    options.size = options.size or (network.least if tiny else network.size)
    if options.size < network.least or options.size % network.multiple:
        multiples = f", in multiples of {network.multiple}" if network.multiple > 1 else ""
        parser.error(f"--size {options.size}: {options.network} takes {network.least} and above{multiples}")
