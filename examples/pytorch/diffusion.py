"""The convolutional networks of latent diffusion (Rombach et al., arXiv 2112.10752), in plain torch, as version 1 of Stable
Diffusion has them: the U-Net that denoises a latent image, and the decoder that makes an image of one."""

import torch
from torch import nn
from torch.nn import functional

GROUPS = 32
HEADS = 8
# The text: its tokens, and the values of each.
TOKENS, TOKEN_WIDTH = 77, 768


def normalised(channels, epsilon):
    return nn.GroupNorm(GROUPS, channels, epsilon)


def as_images(tokens, x):
    """Tokens (N, H W, C) as images of x's shape, in its memory format."""
    images = tokens.transpose(1, 2).reshape(x.shape)
    return images.contiguous(memory_format=torch.contiguous_format if x.is_contiguous() else torch.channels_last)


class Block(nn.Module):
    """Two convolutions beside a shortcut. `time` is the width of the embedded time, if there is one."""

    def __init__(self, channels, width, epsilon, time=None):
        super().__init__()
        self.first = nn.Sequential(normalised(channels, epsilon), nn.SiLU(), nn.Conv2d(channels, width, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, width)) if time else None
        self.second = nn.Sequential(normalised(width, epsilon), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
        self.shortcut = nn.Identity() if channels == width else nn.Conv2d(channels, width, 1)

    def forward(self, x, time=None):
        inner = self.first(x)
        if self.time:
            inner = inner + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.second(inner)


class Attention(nn.Module):
    """Of tokens (N, T, C) to themselves, or to a context (N, T', C')."""

    def __init__(self, width, heads, context=None, bias=False):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias)
        self.key, self.value = (nn.Linear(context or width, width, bias) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x, context=None):
        context = x if context is None else context
        heads = lambda tokens: tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # noqa: E731
        parts = (heads(self.query(x)), heads(self.key(context)), heads(self.value(context)))
        return self.out(functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))


class PixelAttention(nn.Module):
    """Attention of an image's pixels to each other, with one head, added to the image."""

    def __init__(self, width, epsilon):
        super().__init__()
        self.norm, self.attention = normalised(width, epsilon), Attention(width, 1, bias=True)

    def forward(self, x):
        return x + as_images(self.attention(self.norm(x).flatten(2).transpose(1, 2)), x)


class Gated(nn.Module):
    """A linear layer whose first half of values is scaled by GELU of its second half."""

    def __init__(self, width, inner):
        super().__init__()
        self.linear = nn.Linear(width, 2 * inner)

    def forward(self, x):
        values, gate = self.linear(x).chunk(2, dim=-1)
        return values * functional.gelu(gate)


class Transformer(nn.Module):
    """Attention of the pixels to each other and to the text, and a gated network for each pixel."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.enter = normalised(width, 1e-6), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, HEADS), Attention(width, HEADS, TOKEN_WIDTH)
        self.inner = nn.Sequential(Gated(width, 4 * width), nn.Linear(4 * width, width))
        self.leave = nn.Conv2d(width, width, 1)

    def forward(self, x, text):
        tokens = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        tokens = tokens + self.own(self.norms[0](tokens))
        tokens = tokens + self.cross(self.norms[1](tokens), text)
        tokens = tokens + self.inner(self.norms[2](tokens))
        return x + self.leave(as_images(tokens, x))


class Stage(nn.Module):
    """Blocks of one resolution, each followed by a transformer where `attends`, and a change of the resolution at the
    end. `channels` has the input channels of each block."""

    def __init__(self, channels, width, time, attends, resampled=None):
        super().__init__()
        self.blocks = nn.ModuleList(Block(its, width, 1e-5, time) for its in channels)
        self.transformers = nn.ModuleList(Transformer(width) for _ in channels) if attends else None
        self.resampled = resampled

    def steps(self, x, time, text, skipped=None):
        """The result of each block, and the resampled one. A block also reads the last of `skipped`, if there are any."""
        for number, block in enumerate(self.blocks):
            x = block(x if skipped is None else torch.cat([x, skipped.pop()], dim=1), time)
            if self.transformers:
                x = self.transformers[number](x, text)
            yield x
        if self.resampled:
            yield self.resampled(x)


def upwards(width):
    return nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(width, width, 3, padding=1))


class LatentUNet(nn.Module):
    """The U-Net, of latent images (N, 4, S, S), at one time and for one random text."""

    def __init__(self, widths=(320, 640, 1280, 1280), latent=4, blocks=2):
        super().__init__()
        first, deep, time = widths[0], widths[-1], 4 * widths[0]
        self.register_buffer("moment", torch.randn(first))
        self.register_buffer("text", torch.randn(TOKENS, TOKEN_WIDTH))
        self.time = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(latent, first, 3, padding=1)
        self.down, kept = nn.ModuleList(), [first]
        for level, width in enumerate(widths):
            is_last, before = level == len(widths) - 1, kept[-1]
            smaller = None if is_last else nn.Conv2d(width, width, 3, stride=2, padding=1)
            self.down.append(Stage([before] + [width] * (blocks - 1), width, time, not is_last, smaller))
            kept += [width] * (blocks + (not is_last))
        self.middle = nn.ModuleList(Block(deep, deep, 1e-5, time) for _ in range(2))
        self.attention = Transformer(deep)
        self.up, before = nn.ModuleList(), deep
        for level, width in reversed(list(enumerate(widths))):
            channels = [(before if number == 0 else width) + kept.pop() for number in range(blocks + 1)]
            attends = level < len(widths) - 1
            self.up.append(Stage(channels, width, time, attends, upwards(width) if level else None))
            before = width
        self.head = nn.Sequential(normalised(first, 1e-5), nn.SiLU(), nn.Conv2d(first, latent, 3, padding=1))

    def forward(self, x):
        time, text = self.time(self.moment).expand(len(x), -1), self.text.expand(len(x), -1, -1)
        x = self.enter(x)
        skipped = [x]
        for stage in self.down:
            for x in stage.steps(x, time, text):
                skipped.append(x)
        x = self.middle[1](self.attention(self.middle[0](x, time), text), time)
        for stage in self.up:
            for x in stage.steps(x, time, text, skipped):
                pass
        return self.head(x)


def vae_decoder(widths=(512, 512, 256, 128), latent=4, blocks=3):
    """The decoder of the autoencoder: latent images (N, 4, S, S) in, images (N, 3, 8 S, 8 S) out."""
    epsilon, deep = 1e-6, widths[0]
    layers = [nn.Conv2d(latent, latent, 1), nn.Conv2d(latent, deep, 3, padding=1)]
    layers += [Block(deep, deep, epsilon), PixelAttention(deep, epsilon), Block(deep, deep, epsilon)]
    channels = deep
    for level, width in enumerate(widths):
        layers += [Block(channels if number == 0 else width, width, epsilon) for number in range(blocks)]
        channels = width
        if level < len(widths) - 1:
            layers.append(upwards(width))
    return nn.Sequential(*layers, normalised(channels, epsilon), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1))
