"""Batch normalization, in training and in inference: images, channels, planes, types, layouts, and means far from 0."""

import math

from .draw import Draw, cut

MOST_ELEMENTS, LARGE = 1 << 20, 16
# The calls after which a shape, in the last setting, has been tried on our kernels.
EXPLORED = 60


def draw_apart(r, precision):
    """How many deviations means are from 0. In two bytes, numbers far from 0 have no deviation left."""
    return r.choices((0, 4, 1000), (6, 3, 1))[0] if precision == "float" else r.choices((0, 4), (4, 1))[0]


def draw_calls(r, number, settings):
    return EXPLORED if number % settings == settings - 1 and r.is_so(0.6) else 3


def draw(seed, family, number, settings, scale=1.0):
    r = Draw(seed, family, number)
    dims = r.choices((0, 1, 2, 3), (1, 1, 5, 2))[0]
    sizes = {"n": r.size(256), "c": r.size(2048)} | {f"x{d}": r.size((4096, 4096, 112, 28)[dims]) for d in range(dims)}
    most = scale * MOST_ELEMENTS * (LARGE if r.is_so(0.04) else 1)
    # Planes that are whole vectors of 16 bytes, and those that are not.
    cut(sizes, lambda its: math.prod(its.values()), most)
    shape = list(sizes.values())
    if math.prod(shape) // shape[1] < 2:
        shape[0] = 2  # of one number for a channel, PyTorch refuses to take a variance
    precision = r.choice(("half", "float", "bfloat16"))
    # Parameters of the tensors' type, or none: PyTorch's own kernels, as in bfloat16.
    own = precision != "float" and r.is_so(0.25)
    affine, tracks = not r.is_so(0.1), not r.is_so(0.2)
    is_native = own or not affine or not tracks or precision == "bfloat16"
    apart, calls = draw_apart(r, precision), draw_calls(r, number, settings)
    return {"shape": shape, "precision": precision, "apart": apart, "calls": calls,
            "layout": "last" if dims == 2 and r.is_so(0.1) else "first", "way": r.way(), "own": own,
            "affine": affine, "tracks": tracks, "is_native": is_native}  # fmt: skip
