"""Programs that ask for determinism: a small network with convolutions, batch normalization and an RNN trains."""

from .draw import Draw


def draw(seed, family, number, settings, scale=1.0):
    r = Draw(seed, family, number)
    return {"batch": r.size(32, 2), "side": r.size(40, 8), "channels": [r.size(96), r.size(96), r.choice((8, 16, 32))],
            "hidden": r.size(64), "cast": r.choice(("float", "half", "bfloat16")), "steps": r.choice((25, 60)),
            "asked": r.choice(("algorithms", "cudnn")), "seed": r.getrandbits(31)}  # fmt: skip
