"""Workspace Division against Workspace Reuse at equal peaks, and against no division.

A program that keeps a workspace for each convolution, as Caffe does, trains a network's convolutions: under Workspace
Division at a total, and under Workspace Reuse at two limits for each kernel. At these limits, the workspaces together
come nearest to Division's peak, from below and from above. All runs take turns, and find their times in one database,
which is filled first. Prints a table and the division, and writes both.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import demo  # first: it puts harness on the path

from harness import variables
from harness.columns import MEBI, aligned, spread
from harness.results import events
from harness.rounds import in_turn, totals
from turns import Runner

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

    def environment(self, name, policy):
        """The variables of a run, which writes a new report; None for no policy is plain."""
        report = self.options.output / f"{name}.jsonl"
        report.unlink(missing_ok=True)
        return self.plain | ({} if policy is None else self.preloaded | policy | {"UCUDNN_REPORT": str(report)})

    def found(self, name, policy, report):
        """The program's report, with the peak of the workspace that the program and the library held, in bytes."""
        report["peak"] = report["workspace_total"]
        if policy and "UCUDNN_TOTAL_WORKSPACE_SIZE" in policy:
            report["division"] = events(self.options.output / f"{name}.jsonl", "divided")[-1]
            report["peak"] += report["division"]["arena"]
        return report

    def run(self, name, policy):
        """One iteration."""
        options = argparse.Namespace(**vars(self.options) | {"iterations": 1})
        return self.found(name, policy, demo.run(options, self.environment(name, policy), self.options.output / name, dump=False))

    def in_turns(self, kinds):
        """Rounds of several policies, by kind. Each is a process that is set up once, and then iterations take turns."""
        options, folder = self.options, self.options.output
        name_of = lambda kind: kind.split(",")[-1].strip().replace(" ", "-").lower()  # noqa: E731
        with contextlib.ExitStack() as stack:
            runners = {}
            for kind, policy in kinds.items():
                demo.say(f"division: {kind}")
                its = argparse.Namespace(**vars(options) | {"limit": "0" if policy is None else "none"})
                name = name_of(kind)
                command = demo.command_of(its, folder / name, options.rounds * options.iterations, dump=False)
                runner = Runner(command, self.environment(name, policy), folder / name / "convnet.json", demo.say)
                runners[kind] = stack.enter_context(runner)
                for _ in runner.until("ready"):
                    pass
                runner.iterate()  # the warm-up
            for number in range(options.rounds):
                for kind in in_turn(tuple(runners), number):
                    for _ in range(options.iterations):
                        runners[kind].iterate()
            return {kind: self.found(name_of(kind), kinds[kind], runner.finish()) for kind, runner in runners.items()}

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
        return self.run(f"reuse-{limit}", {"UCUDNN_WORKSPACE_LIMIT": str(limit)})["peak"]


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
    first = runs.run("division", division)
    below, above = runs.reuse_near(first["peak"], first["division"]["total"])
    kinds = {
        "plain, no workspace": None,
        "Workspace Division": division,
        "Reuse, not above": {"UCUDNN_WORKSPACE_LIMIT": str(below)},
        "Reuse, above": {"UCUDNN_WORKSPACE_LIMIT": str(above)},
    }

    demo.say(f"division: {title}: {options.rounds} rounds in turns")
    found = runs.in_turns(kinds)
    rows = []
    for kind, report in found.items():
        its = totals(report, options.rounds)
        rows.append({
            "kind": kind,
            "limit": " ".join((kinds[kind] or {}).values()),
            "peak": report["peak"],
            "resident_peak": report["resident_peak"],
            "ms": statistics.median(its),
            "least": min(its),
            "most": max(its),
        })  # fmt: skip
    ours = next(row for row in rows if row["kind"] == "Workspace Division")
    print(f"\n{title}: a workspace for each convolution\n")
    lines = [["", "limit or total", "peak MiB", "ms (least to most)", "Division"]]
    for row in rows:
        times = spread(row["ms"], row["least"], row["most"], ".1f")
        peak, ratio = f"{row['peak'] / MEBI:.2f}", f"{row['ms'] / ours['ms']:.2f}×"
        lines.append([row["kind"], row["limit"], peak, times, ratio])
    print(*aligned(lines), sep="\n")
    last = found["Workspace Division"]["division"]
    print_division(last)
    (options.output / f"{options.network}.json").write_text(
        json.dumps({"title": title, "rows": rows, "division": last}, indent=1))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
