"""The demo's table as an SVG: two bars for each kernel, milliseconds plain and with us."""

from harness.svg import BLUE, FAINT, GREY, box, document, line, text

WIDTH, LEFT, RIGHT, ROW, TOP = 1040, 110, 390, 40, 96
PLAIN, WITH = GREY, BLUE


def bar(x, y, width, colour):
    return box(x, y, max(width, 1), 13, colour, rx=2)


def step_of(longest):
    """A round distance between the axis's lines, for about five lines."""
    step = 10.0 ** -3
    while True:
        for factor in (1, 2, 5):
            if longest / (step * factor) <= 6:
                return step * factor
        step *= 10


def draw(title, rows, total):
    longest = max(max(row["plain_ms"], row["ms"]) for row in rows)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts = [
        text(16, 28, title, 15, weight="bold"),
        text(16, 50, f"all kernels: {total['plain_ms']:.0f} ms plain, {total['ms']:.0f} ms with ucudnn, "
                     f"{total['plain_ms'] / total['ms']:.2f}× as fast", 13, FAINT),
        bar(LEFT, 64, 13, PLAIN), text(LEFT + 20, 75, "plain", 12),
        bar(LEFT + 70, 64, 13, WITH), text(LEFT + 90, 75, "with ucudnn", 12),
        text(LEFT + 190, 75, "milliseconds a call (median); at the right: algorithm or division, workspace", 12, FAINT),
    ]  # fmt: skip
    bottom = TOP + ROW * len(rows)
    step = step_of(longest)
    for tick in range(int(longest / step) + 1):
        x = LEFT + tick * step * scale
        parts.append(line(x, TOP - 8, x, bottom, "#e8eaed"))
        parts.append(text(x, bottom + 18, f"{tick * step:g} ms", 11, FAINT, "middle"))
    for number, row in enumerate(rows):
        y = TOP + number * ROW
        parts.append(text(LEFT - 10, y + 19, row["kernel"], 13, anchor="end"))
        sides = [("plain_ms", "plain_algorithm", "plain_workspace", PLAIN), ("ms", "division", "workspace", WITH)]
        for side, (time, how, workspace, colour) in enumerate(sides):
            top = y + 15 * side
            end = LEFT + row[time] * scale
            parts.append(bar(LEFT, top, row[time] * scale, colour))
            label = f"{row[time]:.1f} ms, {row[how]}, {row[workspace] / (1 << 20):.1f} MiB"
            parts.append(text(end + 6, top + 11, label, 11))
    return document(WIDTH, bottom + 34, parts)
