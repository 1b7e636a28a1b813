"""Runs convnet plain and with libucudnn.so preloaded, in turns, and lists the kernels that became slower.

The machine may be busy with other things, so each kind runs several times. A kernel counts as slower only if the
medians lie further apart than the runs' own scatter and 2% explain, and the least times, too, lie 2% apart: disturbance
only ever lengthens a run. Prints one table and writes it as JSON. The reader judges the findings, so it ends with 0.
"""

import json
import math
import statistics
import sys

import demo  # first: it puts harness on the path

from harness.columns import MEBI, aligned, spread
from harness.rounds import in_turns

# The ratio of two medians below which the difference does not matter.
NEGLIGIBLE = 1.02


def runs_of(options):
    """The reports of all runs, plain and preloaded, and the decisions of the last preloaded run."""
    plain = demo.plain_environment(options) | {"UCUDNN_DATABASE": "off"}  # each run measures anew
    report = options.output / "report.jsonl"
    preloaded = demo.preloaded_environment(options, plain, report)
    preloaded.setdefault("UCUDNN_EXPLORE", "unbounded")  # settled times are compared
    if options.limit != "none":
        preloaded.setdefault("UCUDNN_WORKSPACE_LIMIT", options.limit)

    def run(kind, number):
        demo.say(f"compare: {options.network}, limit {options.limit}, {kind}, round {number + 1} of {options.rounds}")
        if kind == "with":
            report.unlink(missing_ok=True)
        return demo.run(options, preloaded if kind == "with" else plain, options.output / kind)

    runs = in_turns(("plain", "with"), options.rounds, run)
    return runs["plain"], runs["with"], demo.read_plans(report)


def summary(values):
    """The median, and its standard error if the scatter is normal."""
    middle = statistics.median(values)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
    return middle, 1.2533 * deviation / math.sqrt(len(values))


def judged(plain, preloaded):
    """Compares the runs' times: medians, extremes, noise, and whether the preloaded runs are slower."""
    (before, before_error), (after, after_error) = summary(plain), summary(preloaded)
    noise = 2 * math.hypot(before_error, after_error)
    return {
        "plain_ms": before, "plain_least": min(plain), "plain_most": max(plain),
        "ms": after, "least": min(preloaded), "most": max(preloaded), "noise_ms": noise,
        "slower": after - before > noise and after > NEGLIGIBLE * before
        and min(preloaded) > NEGLIGIBLE * min(plain),
    }  # fmt: skip


def rows_of(before, after, rows):
    """demo.py's rows, with the medians of the runs' medians as times, and judged()'s findings."""
    times = {}
    for kind, runs in (("plain", before), ("with", after)):
        for run in runs:
            for kernel in run["kernels"]:
                name = f"{kernel['layer']} {kernel['direction']}"
                times.setdefault(name, {"plain": [], "with": []})[kind].append(kernel["median_ms"])
    rows = [row | judged(times[row["kernel"]]["plain"], times[row["kernel"]]["with"]) for row in rows]
    total = demo.total(rows) | judged([r["total_ms"] for r in before], [r["total_ms"] for r in after])
    return rows, total


def print_table(rows):
    header = ["kernel", "algorithm", "MiB", "ms", "division with us", "MiB", "ms", "speed-up", "difference"]
    lines = [header]
    for row in rows:
        lines.append([
            row["kernel"],
            row["plain_algorithm"], f"{row['plain_workspace'] / MEBI:.2f}", f"{row['plain_ms']:.2f}",
            row["division"], f"{row['workspace'] / MEBI:.2f}", f"{row['ms']:.2f}",
            f"{row['plain_ms'] / row['ms']:.2f}×",
            "equal" if row["difference"] == 0 else f"{row['difference']:.1e}",
        ])  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["─" * width for width in widths]
    print(*aligned([header, rule, *lines[1:-1], rule, lines[-1]], left=(0, 1, 4)), sep="\n")


def print_spread(rows):
    lines = [["kernel", "plain ms (least to most)", "with us ms (least to most)", "noise ms", ""]]
    for row in rows:
        plain = spread(row["plain_ms"], row["plain_least"], row["plain_most"], ".2f")
        ours = spread(row["ms"], row["least"], row["most"], ".2f")
        lines.append([row["kernel"], plain, ours, f"{row['noise_ms']:.2f}", "SLOWER" if row["slower"] else ""])
    print("", *aligned(lines, left=(0, 4)), sep="\n")


def main():
    options = demo.parser_of(__doc__, "compare", batch="32", limit="none", rounds=5).parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    before, after, plans = runs_of(options)
    rows, total = rows_of(before, after, demo.compare(options, before, after, plans))
    title = (f"{options.network}, batch {options.batch}, {options.type}, {options.format.upper()}, limit "
             f"{options.limit}, {options.query}, {options.rounds} runs of {options.iterations}, in turns")  # fmt: skip
    print(f"\n{title}\n")
    print_table(rows + [total])
    print_spread(rows + [total])
    slower = [row["kernel"] for row in rows if row["slower"]]
    print(f"\nKernels slower beyond noise: {', '.join(slower) or 'none'}")
    print(f"All kernels: {total['plain_ms'] / total['ms']:.2f} times as fast")
    workspaces = [runs[-1]["workspace_total"] for runs in (before, after)]
    verdict = "not larger" if workspaces[1] <= workspaces[0] else "LARGER"
    plain, ours = (f"{workspace / MEBI:.2f}" for workspace in workspaces)
    print(f"Workspace in all: {plain} MiB plain, {ours} with us: {verdict}")
    result = {"title": title, "rows": rows, "total": total, "slower": slower, "workspace": workspaces}
    (options.output / "compare.json").write_text(json.dumps(result, indent=1))
    for dumped in options.output.glob("*/*.raw"):
        dumped.unlink()


if __name__ == "__main__":
    sys.exit(main())
