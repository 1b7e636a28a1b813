"""Group normalization by PyTorch's own operators, plain or under the library: a JSON line for each case.

    python group_norm.py group-times|group-errors|group-random|group-repeat [--device cpu] [--runs N]

Cases have the same data in each process, so that lines of two processes can be compared.
"""

import argparse
import json
import random

import torch
from batch_norm import TYPES, begin, count_different, settled, timed, uncached
from harness import calls

EPSILON = 1e-5
# Networks, in the type of their group normalizations: batch, groups, and the layers, which are channels, planes and how
# many layers have these. SegResNet of volumes with 128 voxels a side; Stable Diffusion's decoder to images of 512 x 512,
# and its U-Net on latents of 64 x 64, where the widest layers stand for those of other widths.
NETWORKS = {
    "SegResNet": (2, 8, [(32, (128, 128, 128), 5), (64, (64, 64, 64), 6), (128, (32, 32, 32), 6), (256, (16, 16, 16), 8)]),
    "VAE decoder": (4, 32, [(512, (64, 64), 11), (512, (128, 128), 6), (512, (256, 256), 1), (256, (256, 256), 5),
                            (256, (512, 512), 1), (128, (512, 512), 6)]),
    "latent U-Net": (4, 32, [(320, (64, 64), 13), (640, (64, 64), 2), (960, (64, 64), 1), (640, (32, 32), 11),
                             (1280, (32, 32), 2), (1920, (32, 32), 1), (1280, (16, 16), 11), (2560, (16, 16), 3),
                             (1280, (8, 8), 14), (2560, (8, 8), 3)]),
}  # fmt: skip
# Images, channels and planes, with groups: the networks', and others, among them planes that are not whole vectors, groups
# of one channel and of all, more images than a warp has lanes, and rows.
CHECKED = [((2, 32, 64, 64, 64), 8), ((4, 128, 256, 256), 32), ((4, 320, 64, 64), 32), ((4, 1280, 8, 8), 32),
           ((2, 24, 35, 35), 3), ((8, 64, 17, 17), 64), ((3, 48, 149, 149), 1), ((40, 96, 14, 14), 6), ((64, 256), 32),
           ((1, 16, 9, 31, 32), 4), ((16, 40, 1000), 8)]  # fmt: skip
# On a CPU our kernels are emulated, which takes long.
SMALL = [((2, 8, 7, 8), 2), ((2, 12, 5, 5), 3), ((4, 16), 4), ((1, 6, 3, 4, 6), 1), ((34, 4, 8), 2), ((1, 4, 33, 8), 4)]
REPEATED = [((4, 64, 56, 56), 8), ((4, 1280, 8, 8), 32), ((2, 32, 64, 64, 64), 8)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--runs", type=int, default=10000, help="of each repeated case [10000]")
    parser.add_argument("--cases", type=int, default=120, help="random ones [120]")
    parser.add_argument("--only", help="a type")
    options = parser.parse_args()
    begin(options.device)
    for found in PARTS[options.part](options):
        print(json.dumps(found), flush=True)


class Case:
    """Tensors and parameters, from a seed. All have one type, as PyTorch wants it on a GPU."""

    def __init__(self, shape, groups, kind, device, seed=1, apart=0.0, affine=True):
        generator = torch.Generator(device).manual_seed(seed)
        normal = lambda *sizes: torch.randn(*sizes, device=device, generator=generator).to(TYPES[kind])  # noqa: E731
        images, channels = shape[:2]
        self.sizes = (images, channels, torch.Size(shape[2:]).numel(), groups)
        means = normal(images, groups, 1) * apart
        self.x = (normal(images, groups, torch.Size(shape).numel() // images // groups) + means).view(shape)
        self.dy = normal(*shape)
        self.weight, self.bias = (normal(channels).abs() + 0.5, normal(channels)) if affine else (None, None)

    def step(self):
        """y, the statistics, dx, and the gradients of weight and bias."""
        saved = self.forward()
        return *saved, *self.backward(saved)

    def forward(self):
        return torch.native_group_norm(self.x, self.weight, self.bias, *self.sizes, EPSILON)

    def backward(self, saved):
        wanted = [True, self.weight is not None, self.weight is not None]
        return torch.ops.aten.native_group_norm_backward(
            self.dy, self.x, saved[1], saved[2], self.weight, *self.sizes, wanted)[: sum(wanted)]  # fmt: skip

    def exact(self):
        """The results in double precision, by name."""
        images, channels, plane, groups = self.sizes
        grouped = lambda tensor: tensor.view(images, groups, channels // groups, plane)  # noqa: E731
        x, dy = grouped(self.x.double()), grouped(self.dy.double())
        wide = lambda numbers: numbers.double().view(1, groups, channels // groups, 1)  # noqa: E731
        weight, bias = (1.0, 0.0) if self.weight is None else (wide(self.weight), wide(self.bias))
        mean = x.mean((2, 3), keepdim=True)
        inverse = ((x - mean).square().mean((2, 3), keepdim=True) + EPSILON).rsqrt()
        normal = (x - mean) * inverse
        of_dy = (dy * weight).mean((2, 3), keepdim=True)
        of_normal = (dy * weight * normal).mean((2, 3), keepdim=True)
        shape = self.x.shape
        found = {"y": (normal * weight + bias).view(shape), "mean": mean.view(images, groups),
                 "inverse": inverse.view(images, groups),
                 "dx": (inverse * (dy * weight - of_dy - normal * of_normal)).view(shape)}  # fmt: skip
        if self.weight is not None:
            found |= {"dweight": (dy * normal).sum((0, 3)).flatten(), "dbias": dy.sum((0, 3)).flatten()}
        return found


def named(results):
    """The results of a step, by name."""
    return dict(zip(("y", "mean", "inverse", "dx", "dweight", "dbias"), results))


def name_of(shape, groups, kind):
    return f"{kind} {'x'.join(map(str, shape))} in {groups}"


def sizes(shapes, options):
    return shapes if options.device == "cuda" else SMALL


def errors(options):
    """The error of each result: the norm of its difference from double precision, over that of the exact result."""
    for kind, (shape, groups) in ((k, s) for k in TYPES for s in sizes(CHECKED, options) if options.only in (None, k)):
        # In two bytes, numbers far from 0 have no deviation left.
        for apart, affine in ((0.0, True), (0.0, False), *((far, True) for far in ((1e3, 1e5) if kind == "float" else (4.0,)))):
            case = Case(shape, groups, kind, options.device, apart=apart, affine=affine)
            found, exact = named(case.step()), case.exact()
            words = f"{name_of(shape, groups, kind)} means {apart:g}{'' if affine else ', no weights'}"
            yield {"case": words, "errors": {what: calls.error(found[what], exact[what]) for what in exact}}


def times(options):
    """The device's milliseconds of each pass, by CUDA graphs of calls on tensors that are in no cache."""
    for kind in [options.only] if options.only else TYPES:
        for network, (batch, groups, layers) in NETWORKS.items():
            # On a CPU, one small layer of each shows that the part runs.
            layers = layers if options.device == "cuda" else [(groups, (4, 4), 1)]  # noqa: PLW2901
            for channels, plane, count in layers:
                shape = (batch, channels, *plane)
                bytes_ = torch.Size(shape).numel() * TYPES[kind].itemsize
                cases = [Case(shape, groups, kind, options.device, seed) for seed in range(uncached(bytes_))]
                saved = [case.forward() for case in cases]
                backwards = [lambda case=case, its=its: case.backward(its) for case, its in zip(cases, saved)]
                yield {"case": name_of(shape, groups, kind), "network": network, "type": kind, "count": count, "bytes": bytes_,
                       "forward": timed([case.forward for case in cases], options.device),
                       "backward": timed(backwards, options.device)}  # fmt: skip


def shapes(count):
    """Random inputs, of at most 32 million elements."""
    choose = random.Random(5)
    while count:
        groups = choose.choice((1, 2, 4, 8, 8, 16, 32, 32, 32))
        channels = groups * choose.choice((1, 2, 3, 4, 8, 10, 16, 20, 40))
        plane = [choose.choice((1, 2, 4, 5, 7, 8, 14, 16, 28, 32, 35, 56, 64, 112)) for _ in range(choose.choice((0, 1, 2, 2, 2, 3)))]
        shape = (choose.choice((1, 2, 3, 4, 8, 16, 20, 32, 64)), channels, *plane)
        if torch.Size(shape).numel() <= 32 << 20:
            count -= 1
            yield shape, groups, choose.choice(tuple(TYPES))


def randomly(options):
    """The time of a step, forward and backward, of random shapes."""
    for shape, groups, kind in shapes(options.cases):
        case = Case(shape, groups, kind, options.device)
        yield {"case": name_of(shape, groups, kind), "step": settled(case.step, options.device)}


def repeated(options):
    for kind, (shape, groups) in ((k, s) for k in TYPES for s in sizes(REPEATED, options)[:3]):
        case = Case(shape, groups, kind, options.device)
        yield {"case": name_of(shape, groups, kind), "different": count_different(case.step, options)}


PARTS = {"group-times": times, "group-errors": errors, "group-random": randomly, "group-repeat": repeated}

if __name__ == "__main__":
    main()
