"""Our speed-ups over cuDNN's best algorithm as an SVG: a table by H and batch for each cell and type."""

import math

import networks
from harness.svg import FAINT, GRID, box, document, text

WIDE, HIGH, LEFT, HEAD, GAP, TOP = 88, 36, 44, 54, 26, 96
ACROSS = 2
NAMES = {"lstm": "LSTM", "gru": "GRU", "tanh": "tanh", "relu": "ReLU"}
FASTER, SLOWER, ALIKE = (26, 115, 232), (217, 48, 37), "#f1f3f4"
# The speed-up, or slow-down, at which the colour is full.
FULL = 5.0


def colour(faster):
    """From white to blue or red; grey if cuDNN runs it, or ours is as fast."""
    if networks.LEAST <= faster <= 1 / networks.LEAST:
        return ALIKE
    full, share = FASTER if faster > 1 else SLOWER, min(abs(math.log(faster)) / math.log(FULL), 1)
    return "#" + "".join(f"{round(255 + (channel - 255) * (0.12 + 0.48 * share)):02x}" for channel in full)


def times(faster):
    return f"{faster:.{2 if faster < 10 else 1 if faster < 100 else 0}f}×"


def field(row, x, y):
    """A network's field in its table."""
    stream, graph = row.faster("stream"), row.faster("graph")
    shown = stream or graph
    if shown is None:
        return [text(x + WIDE / 2, y + 21, "refused", 10, FAINT, "middle")]
    parts = [box(x + 1, y + 1, WIDE - 3, HIGH - 3, colour(shown[0]), stroke=GRID),
             text(x + 6, y + 16, times(shown[0]), 13, weight="bold")]  # fmt: skip
    if stream and graph:
        parts.append(text(x + 6, y + 29, f"graph {times(graph[0])}", 9, FAINT))
    return parts


def panel(cell, type_, rows, x, y):
    sizes = sorted({int(row.line["hidden"]) for row in rows})
    batches = sorted({int(row.line["batch"]) for row in rows})
    parts = [text(x, y + 16, f"{NAMES[cell]}, {type_}", 13, weight="bold")]
    for at, size in enumerate(sizes):
        parts.append(text(x + LEFT + WIDE * (at + 0.5), y + HEAD - 8, f"H {size}", 11, FAINT, "middle"))
    for at, batch in enumerate(batches):
        parts.append(text(x + LEFT - 6, y + HEAD + HIGH * (at + 0.5) + 4, f"B {batch}", 11, FAINT, "end"))
    for row in rows:
        across, down = sizes.index(int(row.line["hidden"])), batches.index(int(row.line["batch"]))
        parts += field(row, x + LEFT + WIDE * across, y + HEAD + HIGH * down)
    return parts, LEFT + WIDE * len(sizes), HEAD + HIGH * len(batches)


LEGEND = [
    "How many times as fast as cuDNN's best algorithm: one call on a stream, and as a CUDA graph. H: hidden units; "
    "B: batch.",
    "Blue: faster; red: slower; grey: cuDNN runs it, or as fast.",
]


def draw(rows):
    """Draws `rows`, in any order; networks of one cell and type stand together."""
    steps = sorted({row.line["steps"] for row in rows})
    devices = sorted({row.line["device"] for row in rows})
    title = f"RNN inference, {' and '.join(map(str, steps))} steps, on {' and '.join(devices)}"
    parts, y, width, high, at = [], TOP, 0, 0, 0
    x = 16
    for cell in networks.CELLS:
        for type_ in networks.TYPES:
            its = [row for row in rows if (row.line["cell"], row.line["type"]) == (cell, type_)]
            if not its:
                continue
            if at and at % ACROSS == 0:
                x, y, high = 16, y + high + GAP, 0
            drawn, across, down = panel(cell, type_, its, x, y)
            parts += drawn
            x, high, at = x + across + GAP, max(high, down), at + 1
            width = max(width, x)
    head = [text(16, 28, title, 15, weight="bold")]
    head += [text(16, 50 + 17 * place, words, 12, FAINT) for place, words in enumerate(LEGEND)]
    return document(max(width, 800), y + high + 20, head + parts)
