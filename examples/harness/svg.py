"""Pictures as SVG: texts, lines and boxes, placed in pixels from the upper left corner."""

from xml.sax.saxutils import escape

INK, FAINT, GRID = "#202124", "#5f6368", "#dadce0"
BLUE, RED, GREY, GREEN = "#1a73e8", "#d93025", "#9aa0a6", "#188038"


def text(x, y, words, size=12, colour=INK, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')  # fmt: skip


def line(x1, y1, x2, y2, colour=GRID, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def box(x, y, width, height, fill, **others):
    """A filled rectangle; `others` are further attributes, with _ for -."""
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in others.items())
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"{more}/>'


def document(width, height, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif">', f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>", "",
    ])  # fmt: skip
