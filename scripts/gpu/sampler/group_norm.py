"""Group normalization: images, channels, groups, planes, types, and means far from 0."""

import math

from .draw import Draw, cut
from .norm import LARGE, MOST_ELEMENTS, draw_apart, draw_calls


def draw(seed, family, number, settings, scale=1.0):
    r = Draw(seed, family, number)
    dims = r.choices((0, 1, 2, 3), (1, 1, 5, 3))[0]
    sizes = {"n": r.size(128), "g": r.size(64), "d": r.size(64)}
    sizes |= {f"x{d}": r.size((4096, 4096, 112, 28)[dims]) for d in range(dims)}
    most = scale * MOST_ELEMENTS * (LARGE if r.is_so(0.08) else 1)
    # Planes that are whole vectors of 16 bytes, and those that are not; groups that begin within a vector.
    cut(sizes, lambda its: math.prod(its.values()), most)
    images, groups, channels, *plane = sizes.values()
    precision = r.choice(("half", "float", "bfloat16"))
    apart, calls = draw_apart(r, precision), draw_calls(r, number, settings)
    return {"shape": [images, groups * channels, *plane], "groups": groups, "precision": precision, "apart": apart,
            "calls": calls, "way": r.way(), "affine": not r.is_so(0.15)}  # fmt: skip
