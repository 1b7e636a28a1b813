"""Tables as text."""

MEBI = 1 << 20


def number(value, form, scale=1):
    return "–" if value is None else format(value / scale, form)


def spread(middle, least, most, form):
    return f"{middle:{form}} ({least:{form}} to {most:{form}})"


def aligned(lines, left=(0,)):
    """Pads columns to their widest cell, on the right in the columns `left`; a line of one cell is a heading."""
    tabled = [line for line in lines if len(line) > 1]
    widths = [max(map(len, column)) for column in zip(*tabled, strict=True)]
    for line in lines:
        if len(line) == 1:
            yield line[0]
        else:
            cells = [cell.ljust(width) if place in left else cell.rjust(width)
                     for place, (cell, width) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
            yield "  ".join(cells).rstrip()
