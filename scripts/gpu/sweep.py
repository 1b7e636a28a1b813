"""Random convolutions from the ranges of real networks: plain and with us, in PyTorch.

examples/pytorch/sweep.py draws them: 1-D to 3-D, groups, dilation, strides, half, bfloat16, TF32 and float, each in three
directions. Processes side by side compile the kernels first. Then one process at a time runs all of them: plain; from an
empty database until the library has settled; and the first calls, plain and from an empty database with the default
promise of exploring. Where ours is slower than plain by more than LEAST, both run again in turns, and medians count. OUT
then holds
  table.txt         ratios by axes, type and direction, the slowest ratios, and calls far above their bounds
  results.json      a line for each convolution and direction
  *.jsonl           what each process measured; *.report.jsonl, what the library chose
"""

import json
import math
import os
import statistics
import subprocess

from gpu import machine
from gpu.session import Session
from harness import children
from harness.arguments import count
from harness.columns import aligned
from harness.results import whole_lines
from harness.variables import fresh

# LEAST is the ratio to plain that ours may have. Where it is larger, both run AGAIN rounds. FIRST_CALLS come before settling.
LEAST, AGAIN, FIRST_CALLS = 1.02, 2, 12
# What a call may take more before the library has settled, beside plain's first or longest call: the promise of
# exploring, in milliseconds.
PROMISE = 500.0
# Bytes a second of the memory, and operations a second that are sustained, of an H200.
BYTES, OPERATIONS = 4.8e12, {"half": 700e12, "bfloat16": 700e12, "tf32": 350e12, "float": 55e12}
# The most multiply-adds of a call on hostdnn.
HOST_WORK = 1 << 22
# The ratio from which a call is far above its bound, if the call takes this number of milliseconds.
FAR, FAR_MS = 8.0, 0.1


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-sweep", seconds=900)
    machine.add_arguments(parser, "python", "host")
    parser.add_argument("--seed", type=int, default=1, help="of the convolutions [1]")
    parser.add_argument("--count", type=count, default=300, help="convolutions [300]")
    parser.add_argument("--calls", type=count, default=400, help="the most of a direction before it has settled [400]")


def main(options):
    checks = Sweep(options)
    checks.run_all()
    return checks.end("table.txt")


class Sweep(Session):
    def __init__(self, options):
        super().__init__(options, reserve=20)
        self.python = machine.required_torch(options)
        self.words = ["--seed", str(options.seed), "--count", str(options.count), "--device", options.device]
        if options.host:
            self.words += ["--work", str(HOST_WORK)]

    def command(self, *words):
        return [self.python, "-B", "-W", "ignore", machine.PYTORCH / "sweep.py", *self.words, *words]

    def ours(self, name, database, **others):
        report = self.out / f"{name}.report.jsonl"
        return machine.ours(self.options, report, UCUDNN_DATABASE=database, **others)

    def lines(self, name, words, environment, asked=None, most=math.inf):
        """What a process measured, by number and direction. With `asked`, of these numbers."""
        file, log = self.out / f"{name}.jsonl", self.out / f"{name}.log"
        words = [*words, *(["--asked"] if asked else [])]
        with open(file, "w") as out, open(log, "w") as errors:
            child = children.begin(self.command(*words), machine.torch_environment(**environment), stdin=subprocess.PIPE,
                                   stdout=out, stderr=errors)  # fmt: skip
            try:
                child.communicate("".join(f"{number}\n" for number in asked or ()), self.limit(most))
                if child.returncode:
                    self.verdict("WRONG", name, children.failure(child.returncode, log))
            except subprocess.TimeoutExpired:
                self.verdict("skipped", f"{name}: the rest", "no time left")
            finally:
                children.end(child)
        return {(line["number"], line["way"]): line for line in whole_lines(file) if "ms" in line}

    def compile(self):
        """Several processes compile what all convolutions need; times of this part are not used."""
        self.say(f"kernels are compiled on {os.cpu_count()} processors")
        words, at_once = ["--calls", str(self.options.calls), "--timed", "1"], os.cpu_count()
        database, runs = fresh(self.out / "settled.sqlite"), []
        for first in range(at_once):
            environment = machine.torch_environment(**self.ours(f"compile-{first}", database, UCUDNN_EXPLORE="unbounded"))
            command = self.command(*words, "--first", str(first), "--every", str(at_once))
            with open(self.out / f"compile-{first}.log", "w") as log:
                runs.append(children.begin(command, environment, stdout=subprocess.DEVNULL, stderr=log))
        for first, run in enumerate(runs):
            try:
                if status := run.wait(self.limit(0.4 * self.options.seconds)):
                    log = self.out / f"compile-{first}.log"
                    self.verdict("WRONG", "the kernels are compiled", children.failure(status, log))
            except subprocess.TimeoutExpired:
                self.verdict("skipped", "the rest of the kernels", "they are compiled while times are taken")
            finally:
                children.end(run)

    def run_all(self):
        if not self.options.host:
            self.compile()
        self.say("plain")
        plain = self.lines("plain", ["--calls", "3"], {})
        self.say("with us, until it has settled")
        words, database = ["--calls", str(self.options.calls), "--seconds", "1.5"], fresh(self.out / "settled.sqlite")
        settled = self.ours("settled", database, UCUDNN_EXPLORE="unbounded")
        ours = self.lines("settled", words, settled, most=self.left - 0.3 * self.options.seconds)
        self.say("first calls")
        few, own = ["--calls", str(FIRST_CALLS), "--timed", "1"], self.ours("first", fresh(self.out / "first.sqlite"))
        first = [self.lines(f"first-{name}", few, environment) for name, environment in (("plain", {}), ("ours", own))]
        slower = sorted({number for number, way in plain.keys() & ours.keys()
                         if ours[number, way]["ms"] > LEAST * plain[number, way]["ms"]})  # fmt: skip
        times = {key: ([plain[key]["ms"]], [ours[key]["ms"]]) for key in plain.keys() & ours.keys()}
        for turn in range(AGAIN if slower else 0):
            self.say(f"{len(slower)} convolutions again, turn {turn + 1}")
            for side, environment in ((0, {}), (1, settled)):
                for key, line in self.lines(f"again-{side}-{turn}", ["--calls", "40"], environment, slower).items():
                    times[key][side].append(line["ms"])
        self.report([Pair(plain[key], ours[key], *times[key], *(side.get(key) for side in first)) for key in sorted(times)])

    def report(self, pairs):
        with open(self.out / "results.json", "w") as file:
            file.writelines(json.dumps(pair.line()) + "\n" for pair in pairs)
        text = "\n".join([self.options.gpu, "", *by_kind(pairs), "", *worst(pairs), "", *far(pairs), "", *at_first(pairs), ""])
        (self.out / "table.txt").write_text(text)
        over = [pair.name for pair in pairs if pair.is_over_promise()]
        self.judge(not over, "longest calls", f"{len(over)} above plain's longest by more than the promise")
        self.judge(pairs, "convolutions", f"{len({pair.name for pair in pairs})} of {self.options.count}, {len(pairs)} directions")


class Pair:
    """A convolution's direction, plain and with us."""

    def __init__(self, plain, ours, plain_times, ours_times, first_plain, first_ours):
        self.name, self.way, self.kind = plain["convolution"], plain["way"], plain["convolution"].split()[-1]
        self.axes = len(self.name.split()[0].split("x")) - 2
        self.plain, self.ours = (statistics.median(times) for times in (plain_times, ours_times))
        self.settled, self.first = ours["settled"], (first_plain, first_ours)
        self.ratio = self.ours / self.plain
        self.bound = 1e3 * max(plain["bytes"] / BYTES, plain["operations"] / OPERATIONS[self.kind])

    def is_over_promise(self):
        """Whether a first call is longer than plain's longest by more than the promise of exploring."""
        plain, ours = self.first
        return bool(plain and ours) and ours["longest"] > 1.05 * plain["longest"] + PROMISE

    def line(self):
        return {"convolution": self.name, "way": self.way, "plain_ms": self.plain, "ours_ms": self.ours,
                "bound_ms": self.bound, "settled": self.settled, "first": self.first}  # fmt: skip

    def cells(self):
        return [self.name, self.way, f"{self.plain:.3f}", f"{self.ours:.3f}", f"{self.ratio:.3f}", f"{self.bound:.3f}",
                "" if self.settled else "not settled"]  # fmt: skip


HEADER = ["convolution", "way", "plain ms", "with us", "ratio", "bound", ""]


def by_kind(pairs):
    """Geometric means and extremes of the ratios, for groups of pairs and for all."""
    groups = {"all": pairs}
    for pair in pairs:
        for group in (f"{pair.axes}-D", pair.kind, pair.way):
            groups.setdefault(group, []).append(pair)
    yield from aligned([["ours to plain", "directions", "geometric mean", "least", "most", f"above {LEAST}", "settled"],
                        *([group, str(len(its)), f"{mean(its):.3f}", f"{min(pair.ratio for pair in its):.3f}",
                           f"{max(pair.ratio for pair in its):.3f}", str(sum(pair.ratio > LEAST for pair in its)),
                           str(sum(pair.settled for pair in its))] for group, its in groups.items() if its)])  # fmt: skip


def mean(pairs):
    return math.exp(statistics.fmean(math.log(pair.ratio) for pair in pairs))


def worst(pairs):
    slower = sorted((pair for pair in pairs if pair.ratio > LEAST), key=lambda pair: -pair.ratio)
    yield f"{len(slower)} above {LEAST} of plain:"
    yield from aligned([HEADER, *(pair.cells() for pair in slower[:40])])


def far(pairs):
    above = sorted((pair for pair in pairs if pair.ours > max(FAR * pair.bound, FAR_MS)), key=lambda pair: -pair.ours / pair.bound)
    yield f"{len(above)} that take over {FAR:.0f} times their bound, and {FAR_MS} ms:"
    yield from aligned([HEADER, *(pair.cells() for pair in above[:40])])


def at_first(pairs):
    """The longest calls before settling, beside plain's."""
    both = [pair for pair in pairs if all(pair.first)]
    more = sorted(both, key=lambda pair: pair.first[0]["longest"] - pair.first[1]["longest"])
    sums = [sum(pair.first[side]["sum"] for pair in both) for side in (0, 1)]
    yield (f"The first {FIRST_CALLS} calls of each: {sums[0]:.0f} ms plain, {sums[1]:.0f} with us."
           f" The longest call in ms, the furthest from plain's first:")  # fmt: skip
    yield from aligned([["convolution", "way", "plain", "with us"],
                        *([pair.name, pair.way, *(f"{side['longest']:.2f}" for side in pair.first)] for pair in more[:10])])  # fmt: skip
