"""Workspace Division against Workspace Reuse at equal peaks, and against no division.

A program that keeps a workspace for each convolution, as Caffe does, trains a network's convolutions: under Workspace
Division at a total, and under Workspace Reuse at two limits for each kernel. At these limits, the workspaces together
come nearest to Division's peak, from below and from above. All runs take turns, and find their times in one database,
which is filled first. Prints a table and the division, and writes both.
"""

import argparse
import json
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import demo  # first: it puts harness on the path

from harness import variables
from harness.columns import MEBI, aligned, spread
from harness.results import events
from harness.rounds import in_turns

# The resolution of the search for Reuse's limits, in bytes.
RESOLUTION = 1 << 18
# The runs of that search that ask for their plans at once.
SIDE_BY_SIDE = 7


def parse_arguments():
    parser = demo.parser_of(__doc__, "division", rounds=3)
    parser.add_argument("--total", default="480MiB", help="Workspace Division's budget")
    parser.set_defaults(query="get", limit="none")
    return parser.parse_args()


class Runs:
    """Runs the program under one policy or another."""

    def __init__(self, options):
        self.options = options
        self.plain = demo.plain_environment(options)
        database = str(variables.fresh(options.output / "tuning.sqlite"))
        self.preloaded = variables.preloaded(options.target / "libucudnn.so", UCUDNN_DATABASE=database)

    def run(self, name, policy, iterations):
        """The program's report, with the peak of the workspace that the program and the library held, in bytes."""
        options = argparse.Namespace(**vars(self.options) | {"iterations": iterations})
        report = self.options.output / f"{name}.jsonl"
        report.unlink(missing_ok=True)
        ours = {} if policy is None else self.preloaded | policy | {"UCUDNN_REPORT": str(report)}
        found = demo.run(options, self.plain | ours, self.options.output / name, dump=False)
        found["peak"] = found["workspace_total"]
        if policy and "UCUDNN_TOTAL_WORKSPACE_SIZE" in policy:
            found["division"] = events(report, "divided")[-1]
            found["peak"] += found["division"]["arena"]
        return found

    def reuse_near(self, peak, most):
        """The limits under which Reuse's peak comes nearest to `peak`: from below (or equal), and from above. The database
        has all times, so several runs may ask for their plans side by side."""
        low, high = 0, most  # a larger limit means a larger peak
        while limits := between(low, high, min(SIDE_BY_SIDE, os.cpu_count())):
            with ThreadPoolExecutor(len(limits)) as pool:
                peaks = list(pool.map(self.peak_within, limits))
            for limit, found in zip(limits, peaks, strict=True):
                demo.say(f"division: Reuse within {limit / MEBI:.2f} MiB a kernel takes {found / MEBI:.2f} MiB")
                if found > peak:
                    high = limit
                    break
                low = limit
        return low, high

    def peak_within(self, limit):
        return self.run(f"reuse-{limit}", {"UCUDNN_WORKSPACE_LIMIT": str(limit)}, 1)["peak"]


def between(low, high, count):
    """Up to so many limits between these, evenly; none if there is none."""
    apart = (high - low) / (count + 1)
    limits = {int(low + apart * number) // RESOLUTION * RESOLUTION or RESOLUTION for number in range(1, count + 1)}
    return sorted(limit for limit in limits if low < limit < high)


def print_division(division):
    print(f"\n{division['arena'] / MEBI:.2f} of {division['total'] / MEBI:.2f} MiB, solved in "
          f"{division['solve_ms']:.1f} ms, {'proven optimal' if division['proven'] else 'not proven optimal'}:")  # fmt: skip
    lines = [["MiB", "ms", "kernel and division"]]
    for layer in sorted(division["layers"], key=lambda layer: -layer["workspace"]):
        what = f"{layer['kernel']}: {layer['division']}"
        lines.append([f"{layer['workspace'] / MEBI:.2f}", f"{layer['time_ms']:.2f}", what])
    print(*aligned(lines, left=(2,)), sep="\n")


def main():
    options = parse_arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    runs = Runs(options)
    title = f"{options.network}, batch {options.batch}, {options.type}, {options.format.upper()}"
    division = {"UCUDNN_TOTAL_WORKSPACE_SIZE": options.total}
    demo.say(f"division: {title}: filling the database")
    first = runs.run("division", division, 1)
    below, above = runs.reuse_near(first["peak"], first["division"]["total"])
    kinds = {
        "plain, no workspace": None,
        "Workspace Division": division,
        "Reuse, not above": {"UCUDNN_WORKSPACE_LIMIT": str(below)},
        "Reuse, above": {"UCUDNN_WORKSPACE_LIMIT": str(above)},
    }

    def run(kind, number):
        demo.say(f"division: {title}: {kind}, round {number + 1} of {options.rounds}")
        options.limit = "0" if kinds[kind] is None else "none"
        return runs.run(kind.split()[0].strip(",").lower(), kinds[kind], options.iterations)

    found = in_turns(tuple(kinds), options.rounds, run)
    rows = [
        {
            "kind": kind,
            "limit": "" if not policy else " ".join(policy.values()),
            "peak": max(run["peak"] for run in reports),
            "resident_peak": max(run["resident_peak"] for run in reports),
            "ms": statistics.median(run["total_ms"] for run in reports),
            "least": min(run["total_ms"] for run in reports),
            "most": max(run["total_ms"] for run in reports),
        }
        for (kind, policy), reports in zip(kinds.items(), found.values(), strict=True)
    ]
    ours = next(row for row in rows if row["kind"] == "Workspace Division")
    print(f"\n{title}: a workspace for each convolution\n")
    lines = [["", "limit or total", "peak MiB", "ms (least to most)", "Division"]]
    for row in rows:
        times = spread(row["ms"], row["least"], row["most"], ".1f")
        peak, ratio = f"{row['peak'] / MEBI:.2f}", f"{row['ms'] / ours['ms']:.2f}×"
        lines.append([row["kind"], row["limit"], peak, times, ratio])
    print(*aligned(lines), sep="\n")
    last = found["Workspace Division"][-1]["division"]
    print_division(last)
    (options.output / f"{options.network}.json").write_text(
        json.dumps({"title": title, "rows": rows, "division": last}, indent=1))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
