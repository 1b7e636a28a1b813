"""When a result is wrong.

An error is taken twice: ||out - exact|| / ||exact||, and the furthest element's distance over the root mean square of
exact. `exact` is in double precision. Where numbers cancel, as in the gradient through a batch normalization of two
numbers, the case gives a magnitude in place of ||exact||. Ours may be FACTOR times the error that plain has on the same
data, and `floor` above that:

    ours <= FACTOR * plain + floor
    floor = TIMES * (UNITS * u * sqrt(chain) + min(u, 2**-24) * sqrt(depth))

u is the unit of the type's rounding. A right computation may round a number to its type a few times (UNITS) where plain
does not: h between blocks, a gradient's parts. Such roundings are independent, so after `chain` time steps, or levels,
their sum has grown by the root of it. Sums are in float, of doubles in double: one of `depth` random numbers in another
order than plain's is off by some 2**-24 sqrt(depth) of its norm; `depth` counts the numbers of all steps that a result
depends on. Of an element TIMES is 4, since the furthest of a million normal numbers is 5 deviations from 0, and that of a
hundred is 2.5; of a norm it is 1.

Floats have u = 2**-24, also where the program allows TF32, because what plain does not round to TF32, we do not either:
if it does, FACTOR times its error has room for ours. Two kinds of cases cannot go by that. A tensor of few elements may
be right by chance. And an RNN or a vertex net takes TF32 wherever the program allows it, as the docs say. There u is
TF32's.

Where few numbers are sums that cancel by chance, their norm says little about what was summed: that of E normal numbers
is below E**1.75 / 80 of its expectation in one of a hundred cases. The floor of such tensors is as much higher.
"""

import math

FACTOR, UNITS = 4.0, 4.0
UNIT = {"double": 2.0**-53, "float": 2.0**-24, "tf32": 2.0**-11, "half": 2.0**-11, "bfloat16": 2.0**-8}
# Norms of more elements than this are near their expectation: 1 / sqrt(2 * 64) is 9%.
FEW = 64
TIMES = {"norm": 1.0, "worst": 4.0}


def unit(precision, elements, goes_by_plain):
    if precision == "tf32" and goes_by_plain and elements > FEW:
        return UNIT["float"]
    return UNIT[precision]


def floor(measure, found):
    """The error above plain's that a tensor may have: `found` is its entry in a case's line."""
    u = unit(found["precision"], found["elements"], found["goes_by_plain"])
    by_chance = max(1.0, 80 / max(found["elements"], 1) ** 1.75)
    sums = min(u, UNIT["float"]) * math.sqrt(found["depth"])
    return by_chance * TIMES[measure] * (UNITS * u * math.sqrt(found["chain"]) + sums)


def ratio(measure, found, plain):
    """Ours over what plain's comes to with its share of the floor: above FACTOR it is wrong. NaN is infinitely wrong."""
    ours = found[measure]
    if not math.isfinite(ours):
        # Where plain overflows too, nothing can be said.
        return 0.0 if not math.isfinite(plain[measure]) else math.inf
    its = plain[measure] if math.isfinite(plain[measure]) else 0.0
    return ours / (its + floor(measure, found) / FACTOR)


def judge(ours, rival, equal_bits, again):
    """What is wrong with a case, in words, and its worst ratio.

    ours, rival: the lines of both sides. equal_bits: whether equal bits are promised. again: whether the rival is a
    process like ours, whose bits are to be the same.
    """
    if "failed" in ours:
        return ([] if "failed" in rival else [f"failed: {ours['failed']}"]), 0.0
    if "failed" in rival:
        # The rival cannot run it, or ran out of memory: there is nothing to compare with.
        return [], 0.0
    wrong, worst = list(ours.get("wrong", ())), 0.0
    for name, found in ours["tensors"].items():
        plain = rival["tensors"][name]
        for measure in TIMES:
            its = ratio(measure, found, plain)
            worst = max(worst, its)
            if its > FACTOR:
                wrong.append(f"{name}: {measure} error {found[measure]:.1e}, plain {plain[measure]:.1e} ({found['at']})")
    if equal_bits and ours["different"]:
        wrong.append(f"other bits: {', '.join(ours['different'])}")
    if again and equal_bits and ours["digest"] != rival["digest"]:
        wrong.append("other bits in another process")
    return wrong, worst
