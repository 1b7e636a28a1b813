"""The table as an SVG: a bar for each cell and policy, its step's ratio to plain's, with the rounds' least and most."""

import summary
from harness.columns import MEBI, number
from harness.svg import BLUE, FAINT, GREEN, GREY, GRID, INK, RED, box, document, line, text

LEFT, PLOT, ROW, HEAD, TOP = 150, 420, 17, 30, 108
LONGEST = 2.0  # a longer ratio's bar ends here, with a gap
COLUMNS = [("step", 118), ("to channels_last", 98), ("convolutions", 80), ("device MiB", 150), ("workspace MiB", 128),
           ("gradients", 70)]  # fmt: skip
ALIKE = 0.01
LEGEND = [
    "Bars: step time to plain's, shorter is faster (blue: by more than 1%, red: slower by more than 1%); lines across "
    "them: the rounds' least and most; *: not settled.",
    "Green lines, in NCHW: plain's step in channels_last, which the same network could use without the library; a bar "
    "that ends before its line is faster.",
    "At the right: ratios of the step, to plain and to channels_last, and of the convolutions' kernels, memory "
    "plain → ours, the largest ratio of the gradients' errors.",
]


def at(ratio):
    return LEFT + PLOT * min(ratio, LONGEST) / LONGEST


def pair(row, value):
    plain, ours = (number(side[value], ",.0f", MEBI) for side in (row.plain, row.ours))
    return f"{plain} → {ours}" if plain != "–" else "–"


def bar(row, y):
    colour = GREY if abs(row.ratio - 1) <= ALIKE else BLUE if row.ratio < 1 else RED
    end = at(row.ratio)
    yield box(LEFT, y - 10, end - LEFT, 12, colour, fill_opacity=0.75)
    if row.ratio > LONGEST:
        yield f'<path d="M{end - 12:.1f} {y + 3:.1f} l5 -14 h5 l-5 14 z" fill="white"/>'
    elif row.runs > 1:
        yield line(at(row.least), y - 4, at(row.most), y - 4, INK, 1.4)
    if row.beside is not None:
        place = at(row.beside / row.plain["step_ms"])
        yield line(place, y - 12, place, y + 4, GREEN, 2)


def values(row):
    spread = f" ({row.least:.2f}–{row.most:.2f})" if row.runs > 1 else ""
    return [f"{row.ratio:.3f}{spread}", number(row.over_beside, ".3f"), number(row.ratio_of("convolution_ms"), ".3f"),
            pair(row, "device_peak"), pair(row, "workspace"), number(row.gradients, ".2f")]  # fmt: skip


def draw(rows):
    parts, y = [], TOP
    columns, x = [], LEFT + PLOT + 12
    for name, width in COLUMNS:
        x += width
        columns.append((name, x))
    width = x + 16
    plot_tops = []
    for number, row in enumerate(rows):
        if number == 0 or rows[number - 1].configuration != row.configuration:
            y += HEAD
            heading = f"{summary.title(row.configuration)}: {row.plain['step_ms']:.1f} ms plain"
            if row.beside is not None:
                heading += f", {row.beside:.1f} in channels_last"
            parts.append(text(16, y - 8, heading, weight="bold"))
            plot_tops.append([y - 2, y])
        y += ROW
        plot_tops[-1][1] = y
        parts.append(text(LEFT - 8, y - 1, row.policy + ("" if row.settled else " *"), anchor="end"))
        parts += bar(row, y)
        parts += [text(end, y - 1, words, 11, anchor="end") for (_, end), words in zip(columns, values(row))]
    grid = [line(at(tick), top, at(tick), bottom, INK if tick == 1 else GRID) for top, bottom in plot_tops
            for tick in (0, 0.5, 1, 1.5, 2)]  # fmt: skip
    head = [
        text(16, 26, "PyTorch's training step under libucudnn.so, against plain", 15, weight="bold"),
        *(text(16, 46 + 16 * number, words, 12, FAINT) for number, words in enumerate(LEGEND)),
        *(text(at(tick), TOP - 4, f"{tick:g}×", 11, FAINT, "middle") for tick in (0, 0.5, 1, 1.5, 2)),
        *(text(end, TOP - 4, name, 11, FAINT, "end") for name, end in columns),
    ]  # fmt: skip
    return document(width, y + 24, head + grid + parts)
