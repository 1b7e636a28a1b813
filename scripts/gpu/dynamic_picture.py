"""The times of nets over graphs as an SVG: for each net and batch a bar for each method, how many times as fast it is as
eager PyTorch. The scale is logarithmic."""

import math

from harness.svg import BLUE, FAINT, GREY, GRID, INK, RED, box, document, line, text

LEFT, PLOT, ROW, HEAD, TOP = 150, 560, 16, 30, 92
TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100)
#: The words for the methods of tree_baselines.py, and the colours, by the method's first word.
NAMES = {"C": "compiled", "B": "by hand", "G": "graphs", "GC": "graphs, compiled"}
COLOURS = {"ucudnn": BLUE, "G": RED, "GC": RED}
LEGEND = ("Blue: ours. Grey: PyTorch, compiled (torch.compile), by hand (states in one tensor), or its own operator. Red:"
          " PyTorch, padded, in CUDA graphs.")  # fmt: skip


def at(ratio):
    low, high = math.log(TICKS[0]), math.log(TICKS[-1])
    return LEFT + PLOT * (math.log(min(max(ratio, TICKS[0]), TICKS[-1])) - low) / (high - low)


def draw(tables, title):
    parts, y = [], TOP
    for table in tables:
        y += HEAD
        parts.append(text(16, y - 8, f"{table['net']}, H = {table['rows'][0]['hidden']}", weight="bold"))
        for row in table["rows"]:
            eager = row["ms"]["E"][1]
            y += 6
            for name, (_, middle, _) in row["ms"].items():
                if name == "E":
                    continue
                y += ROW
                ratio = eager / middle
                colour = COLOURS.get(name.split()[0], GREY)
                left, right = sorted((at(1), at(ratio)))
                parts += [
                    text(LEFT - 8, y - 3, f"{row['batch']}: {NAMES.get(name, name)}", 11, anchor="end"),
                    box(left, y - 12, max(right - left, 1), 11, colour, fill_opacity=0.75),
                    text(right + 6, y - 3, f"{ratio:.2f} ({middle:.3g} ms)", 11, FAINT),
                ]
    grid = [line(at(tick), TOP, at(tick), y + 4, INK if tick == 1 else GRID) for tick in TICKS]
    head = [
        text(16, 26, "Nets over graphs: times as fast as eager PyTorch, level by level", 15, weight="bold"),
        text(16, 46, f"Forward and backward; {title}. Batch and method at the left, median ms in brackets.", 12, FAINT),
        text(16, 62, LEGEND, 11, FAINT),
        *(text(at(tick), TOP - 4, f"{tick:g}×", 11, FAINT, "middle") for tick in TICKS),
    ]
    return document(LEFT + PLOT + 130, y + 24, head + grid + parts)
