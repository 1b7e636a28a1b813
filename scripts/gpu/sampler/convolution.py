"""Convolutions: dimensions, sizes, groups, filters, strides, dilations, types and layouts.

A case has `input` [N, C, ...], `channels` K, `filter`, `stride`, `padding` and `dilation` for each dimension.
"""

import math

from .draw import Draw, cut

# The most multiply-adds of a case, the most elements of a tensor, and the factor of both for the few large cases.
MOST_WORK, MOST_ELEMENTS, LARGE = 1 << 29, 1 << 20, 16
PRECISIONS = {"float": 3, "tf32": 3, "half": 4, "bfloat16": 2}


def draw(seed, family, number, settings, scale=1.0):
    """A case of any kind."""
    r = Draw(seed, family, number)
    dims = r.choices((1, 2, 3), (1, 6, 2))[0]
    if r.is_so(0.08):
        return _covered(r, dims, scale)
    if r.is_so(0.12):
        return _same(r, max(dims, 2), scale)
    if r.is_so(0.1):
        return _patches(r, dims, scale)
    if r.is_so(0.1):
        return _grouped(r, min(dims, 2), scale)
    if r.is_so(0.1):
        return _by_channel(r, dims, scale)
    groups = r.weighted(one=7, few=2, depthwise=1)
    most = {"one": 512, "few": 64, "depthwise": 1}[groups]
    count = {"one": 1, "few": r.randint(2, 8), "depthwise": r.size(128, 2)}[groups]
    sizes = {"n": r.size(64), "c": r.size(most), "k": r.size(most if groups != "depthwise" else 4)}
    sizes |= {f"x{d}": r.size((1024, 112, 32)[dims - 1]) for d in range(dims)}
    filters = [r.choices((1, 3, 5, 7, 2, 4, 11), (5, 6, 2, 1, 1, 1, 1))[0] for _ in range(dims)]
    if r.is_so(0.6):
        filters = [filters[0]] * dims
    square = r.is_so(0.7)
    stride = [r.choices((1, 2, 3), (6, 3, 1))[0] for _ in range(dims)]
    dilation = [r.choices((1, 2, 3), (8, 1, 1))[0] for _ in range(dims)]
    if square:
        stride, dilation = [stride[0]] * dims, [dilation[0]] * dims
    same = r.is_so(0.6)
    padding = [d * (f // 2) if same else r.randint(0, d * (f - 1)) for f, d in zip(filters, dilation, strict=True)]
    return _made(r, dims, count, sizes, filters, stride, dilation, padding, {}, scale)


def draw_copied(seed, family, number, settings, scale=1.0):
    """A case that cuDNN computes on copies in another layout: channels first, small filters, two dimensions. Channels
    and planes are the rows and columns of what is transposed."""
    r = Draw(seed, family, number)
    sizes = {"n": r.size(32), "c": r.size(1024), "k": r.size(1024), "x0": r.size(64), "x1": r.size(64)}
    filters = [r.choice((1, 1, 3))] * 2
    stride = [r.choices((1, 2), (4, 1))[0]] * 2
    its = {"layout": "first", "precision": r.choice(("half", "bfloat16", "tf32")), "transposed": False}
    return _made(r, 2, 1, sizes, filters, stride, [1, 1], [f // 2 for f in filters], its, scale)


def _covered(r, dims, scale):
    """A case whose filter covers the image, as a patch embedding's: a product of matrices."""
    filters = [r.choice((1, 2, 3, 4, 7, 14, 16)) for _ in range(dims)]
    sizes = {"n": r.size(8192), "c": r.size(64), "k": r.size(4096)} | {f"x{d}": f for d, f in enumerate(filters)}
    its = {"transposed": False, "layout": "first"}
    case = _made(r, dims, 1, sizes, filters, filters, [1] * dims, [0] * dims, its, scale)
    return case | {"input": [sizes["n"], sizes["c"], *filters]}


def _patches(r, dims, scale):
    """A case whose strides are the filter's sizes, as a patch embedding's or an upsampling's: some pixels may be left."""
    filters = [r.choices((1, 2, 3, 4, 7, 8, 14, 16, 32), (2, 6, 1, 3, 1, 1, 2, 3, 1))[0] for _ in range(dims)]
    filters[-1] = max(filters[-1], 2)
    sizes = {"n": r.size(64), "c": r.size(96), "k": r.size(1024)}
    sizes |= {f"x{d}": r.size((1024, 224, 48)[dims - 1], f) for d, f in enumerate(filters)}
    return _made(r, dims, 1, sizes, filters, filters, [1] * dims, [0] * dims, {"layout": "first"}, scale)


def _grouped(r, dims, scale):
    """A case of many small groups, as ResNeXt's, or of filters whose places are far apart or no square."""
    is_grouped = r.is_so(0.6)
    count, most = (r.randint(2, 64), 48) if is_grouped else (1, 256)
    sizes = {"n": r.size(64), "c": r.size(most), "k": r.size(most)} | {f"x{d}": r.size((1024, 96)[dims - 1]) for d in range(dims)}
    if is_grouped and r.is_so(0.7):
        sizes["k"] = sizes["c"]
    filters = [r.choices((1, 3, 5, 7, 2, 9, 15), (2, 8, 2, 2, 1, 1, 1))[0] for _ in range(dims)]
    dilation = [1 if is_grouped else r.choices((1, 2, 6, 12, 24, r.randint(1, 40)), (4, 3, 1, 1, 1, 1))[0]] * dims
    stride = [r.choices((1, 2, 3, 4), (8, 4, 1, 1))[0]] * dims
    padding = [d * (f // 2) for f, d in zip(filters, dilation, strict=True)]
    its = {"transposed": False, "layout": "first"}
    return _made(r, dims, count, sizes, filters, stride, dilation, padding, its, scale)


def _by_channel(r, dims, scale):
    """A case with filters of each channel, or of one channel, with the strides of MobileNet and EfficientNet, and others."""
    count, each = r.choices(((r.size(256, 2), r.choice((1, 1, 1, 2))), (1, r.size(64))), (3, 1))[0]
    sizes = {"n": r.size(128), "c": 1, "k": each} | {f"x{d}": r.size((2048, 112, 48)[dims - 1]) for d in range(dims)}
    filters = [r.choices((3, 5, 7, 1, 2, 9, 15, 32), (6, 4, 2, 1, 1, 1, 1, 1))[0] for _ in range(dims)]
    stride = [r.choices((1, 2, 3, 4), (2, 6, 1, 1))[0] for _ in range(dims)]
    if r.is_so(0.7):
        filters, stride = [filters[0]] * dims, [stride[0]] * dims
    same = r.is_so(0.6)
    padding = [f // 2 if same else r.randint(0, f - 1) for f in filters]
    its = {"transposed": False, "layout": "first", "precision": r.choice(("half", "bfloat16"))}
    return _made(r, dims, count, sizes, filters, stride, [1] * dims, padding, its, scale)


def _same(r, dims, scale):
    """A case that keeps the size of images or volumes, by filters of three places on each axis, or of one slice, with
    channels in eights."""
    filters = [3 if dims == 2 or r.is_so(0.8) else 1, 3, 3][-dims:]
    sizes = {"n": r.size(32), "c": r.size(512), "k": r.size(512)} | {f"x{d}": r.size((96, 32)[dims - 2]) for d in range(dims)}
    its = {"transposed": False, "layout": "first", "precision": r.choice(("half", "bfloat16"))}
    case = _made(r, dims, 1, sizes, filters, [1] * dims, [1] * dims, [f // 2 for f in filters], its, scale)
    eights = lambda channels: max(32, channels // 8 * 8)  # noqa: E731
    images, channels, *planes = case["input"]
    return case | {"input": [images, eights(channels), *planes], "channels": eights(case["channels"])}


def _made(r, dims, groups, sizes, filters, stride, dilation, padding, fixed, scale):
    """The case, of sizes that are cut to what is quickly computed in double precision."""
    larger = scale * (LARGE if r.is_so(0.03) else 1)
    reach = [d * (f - 1) + 1 for f, d in zip(filters, dilation, strict=True)]

    def output(sizes):
        places = zip(range(dims), reach, stride, padding, strict=True)
        return [max((sizes[f"x{d}"] + 2 * p - its) // s + 1, 1) for d, its, s, p in places]

    def weight(sizes):
        planes = [sizes[f"x{d}"] for d in range(dims)]
        out = math.prod(output(sizes))
        work = sizes["n"] * groups * sizes["c"] * sizes["k"] * math.prod(filters) * max(out, math.prod(planes))
        elements = max(sizes["n"] * groups * sizes["c"] * math.prod(planes), sizes["n"] * groups * sizes["k"] * out,
                       groups * sizes["c"] * sizes["k"] * math.prod(filters))  # fmt: skip
        return max(work / MOST_WORK, elements / MOST_ELEMENTS) / larger

    cut(sizes, weight, 1)
    planes = [sizes[f"x{d}"] for d in range(dims)]
    # A filter is no larger than the padded input.
    planes = [max(x, its - 2 * p) for x, its, p in zip(planes, reach, padding, strict=True)]
    precision = r.choices(list(PRECISIONS), list(PRECISIONS.values()))[0]
    case = {
        "input": [sizes["n"], groups * sizes["c"], *planes], "channels": groups * sizes["k"], "groups": groups,
        "filter": filters, "stride": stride, "padding": padding, "dilation": dilation, "precision": precision,
        "layout": "last" if dims > 1 and r.is_so(0.25) else "first", "bias": r.is_so(0.2), "transposed": r.is_so(0.1),
        "deterministic": r.is_so(0.12), "benchmark": r.is_so(0.08), "way": r.way(0.2),
        "calls": r.choices((3, 12, 40), (3, 5, 2))[0],
    } | fixed  # fmt: skip
    if case["precision"] == "tf32":
        # Plain's own choices by times are this far apart: 1.2e-6 and 2.2e-2 in two processes.
        case["benchmark"] = False
    if case["transposed"]:
        # The input of a transposed convolution has the output's size.
        case["input"] = [sizes["n"], groups * sizes["c"], *(min(x, 32) for x in planes)]
        case["padding"] = [min(p, its - 1) for p, its in zip(padding, reach, strict=True)]
        transposed = ((x - 1) * s - 2 * p + its
                      for x, s, p, its in zip(case["input"][2:], stride, case["padding"], reach, strict=True))  # fmt: skip
        if min(transposed) < 1:
            case["padding"] = [0] * dims
    return case
