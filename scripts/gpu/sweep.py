"""Random convolutions from the ranges of real networks: plain and with us, in PyTorch.

examples/pytorch/sweep.py draws them: 1-D to 3-D, groups, dilation, strides, half, bfloat16, TF32 and float, each in three
directions. A part begins with nothing in the database:
  settled  Processes side by side compile the kernels. Then one process at a time runs all: plain, with us until the
           library has settled, and plain again. Directions in which ours took more than LEAST of plain run again, plain
           and with us in TURNS turns. Only these turns say whether ours is slower: its median is above LEAST of plain's,
           and all of its times are above all of plain's. Plain's own scatter is beside it.
  first    The first calls, plain and with us with the default promise of exploring.
OUT then holds
  settled.txt, first.txt     ratios by axes, type and direction, the slowest ratios, and calls far above their bounds; the
                             longest calls before settling
  settled.json, first.json   a line for each convolution and direction
  *.jsonl                    what each process measured; *.report.jsonl, what the library chose
"""

import itertools
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

# LEAST is the ratio to plain that ours may have. Where it is larger, both run in TURNS turns, with LOOKS looks at each
# direction: of two sides with times alike, one in 70 has all of four above the other's. FIRST_CALLS come before settling.
LEAST, TURNS, LOOKS, FIRST_CALLS = 1.02, 4, 15, 12
PARTS = ("settled", "first")
# What of the time is left to the first calls, if both parts run, in seconds.
OF_FIRST = 150
# What a call may take more before the library has settled, beside plain's first or longest call: the promise of
# exploring, in milliseconds.
PROMISE = 500.0
# Bytes a second of the memory, and operations a second that are sustained, of an H200.
BYTES, OPERATIONS = 4.8e12, {"half": 700e12, "bfloat16": 700e12, "tf32": 350e12, "float": 55e12}
# The most multiply-adds of a call on hostdnn.
HOST_WORK = 1 << 22
# The ratio from which a call is far above its bound, and the least milliseconds: of the device, or, in calls that are waited
# for, above plain's. The host's time is in those.
FAR, FAR_MS = 8.0, 0.1


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-sweep", seconds=900)
    machine.add_arguments(parser, "python", "host")
    machine.add_parts(parser, PARTS)
    parser.add_argument("--seed", type=int, default=1, help="of the convolutions [1]")
    parser.add_argument("--count", type=count, default=300, help="convolutions [300]")
    parser.add_argument("--calls", type=count, default=400, help="the most of a direction before it has settled [400]")


def main(options):
    checks = Sweep(options)
    for part in options.parts:
        getattr(checks, part)()
    return checks.end(*(f"{part}.txt" for part in options.parts))


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

    def settled(self):
        """Times after settling, plain and with us."""
        left = min(OF_FIRST, 0.3 * self.options.seconds) if "first" in self.options.parts else 0
        self.seconds -= left
        if not self.options.host:
            self.compile()
        few = ["--calls", "3"]
        self.say("plain")
        plain = [self.lines("plain", few, {})]
        self.say("with us, until it has settled")
        words, database = ["--calls", str(self.options.calls), "--seconds", "1.5"], fresh(self.out / "settled.sqlite")
        environment = self.ours("settled", database, UCUDNN_EXPLORE="unbounded")
        ours = self.lines("settled", words, environment, most=self.left - 0.35 * self.options.seconds)
        self.say("plain again")
        plain.append(self.lines("plain-again", few, {}))
        both = plain[0].keys() & ours.keys()
        pairs = {key: Pair([its[key] for its in plain if key in its], ours[key]) for key in sorted(both)}
        slower = sorted({number for (number, _), pair in pairs.items() if pair.ratio > LEAST})
        for turn in range(TURNS if slower else 0):
            self.say(f"{len(slower)} convolutions in turn {turn + 1}")
            words = ["--calls", "40", "--timed", str(LOOKS)]
            sides = [self.lines(f"turn-{turn}-{name}", words, its, slower)
                     for name, its in (("plain", {}), ("ours", environment))]  # fmt: skip
            for key in sides[0].keys() & sides[1].keys() & pairs.keys():
                pairs[key].turns.append(tuple(side[key]["ms"] for side in sides))
        pairs = list(pairs.values())
        self.write("settled", pairs, [*by_kind(pairs), "", *worst(pairs), "", *scatter(pairs), "", *far(pairs)])
        self.judge(pairs, "convolutions", f"{len({pair.name for pair in pairs})} of {self.options.count}, {len(pairs)} directions")
        self.judge_far("settled", [pair for pair in pairs if pair.is_far() and pair.plain <= FAR * pair.bound])
        self.seconds += left

    def first(self):
        """The first calls, plain and with us."""
        words, own = ["--calls", str(FIRST_CALLS), "--timed", "1"], self.ours("first", fresh(self.out / "first.sqlite"))
        self.say("first calls, plain")
        plain = self.lines("first-plain", words, {}, most=0.4 * self.left)
        self.say("first calls, with us")
        ours = self.lines("first-ours", words, own)
        pairs = [First(plain[key], ours[key]) for key in sorted(plain.keys() & ours.keys())]
        self.write("first", pairs, at_first(pairs))
        over = [pair.name for pair in pairs if pair.is_over_promise()]
        self.judge(pairs and not over, "longest calls",
                   f"{len(over)} of {len(pairs)} above plain's longest by more than the promise, {PROMISE:.0f} ms")  # fmt: skip
        self.judge_far("first calls", [pair for pair in pairs if pair.is_far()])

    def judge_far(self, what, pairs):
        self.judge(not pairs, f"{what}: calls over {FAR:.0f} times their bound where plain's are within",
                   ", ".join(f"{pair.name} {pair.way}" for pair in pairs[:5]) or "none")  # fmt: skip

    def write(self, part, pairs, lines):
        with open(self.out / f"{part}.json", "w") as file:
            file.writelines(json.dumps(pair.line()) + "\n" for pair in pairs)
        (self.out / f"{part}.txt").write_text("\n".join([self.options.gpu, "", *lines, ""]))


def bound(line):
    """The milliseconds that bytes and operations take at least."""
    return 1e3 * max(line["bytes"] / BYTES, line["operations"] / OPERATIONS[line["convolution"].split()[-1]])


class Pair:
    """A convolution's direction after settling, plain (once or twice) and with us; and the times of both in turns."""

    def __init__(self, plain, ours):
        self.name, self.way, self.kind = ours["convolution"], ours["way"], ours["convolution"].split()[-1]
        self.axes = len(self.name.split()[0].split("x")) - 2
        self.settled, self.bound = ours["settled"], bound(ours)
        self.plains, self.once, self.turns = [line["ms"] for line in plain], ours["ms"], []

    @property
    def plain(self):
        return statistics.median([its for its, _ in self.turns] or self.plains)

    @property
    def ours(self):
        return statistics.median([its for _, its in self.turns] or [self.once])

    @property
    def ratio(self):
        return self.ours / self.plain

    def is_slower(self):
        """Whether turns say so, beyond their scatter."""
        if len(self.turns) < 2:
            return False
        plain, ours = zip(*self.turns, strict=True)
        return self.ratio > LEAST and min(ours) > max(plain)

    def is_far(self):
        return self.ours > max(FAR * self.bound, FAR_MS)

    def line(self):
        return {"convolution": self.name, "way": self.way, "plain_ms": self.plain, "ours_ms": self.ours, "bound_ms": self.bound,
                "settled": self.settled, "slower": self.is_slower(), "plain": self.plains, "turns": self.turns}  # fmt: skip

    def cells(self):
        return [self.name, self.way, f"{self.plain:.4f}", f"{self.ours:.4f}", f"{self.ratio:.3f}", f"{self.bound:.3f}",
                "" if self.settled else "not settled"]  # fmt: skip


class First:
    """The first calls of a convolution's direction, plain and with us, each waited for."""

    def __init__(self, plain, ours):
        self.name, self.way, self.plain, self.ours, self.bound = ours["convolution"], ours["way"], plain, ours, bound(ours)

    @property
    def beyond(self):
        """By how much our longest call exceeds plain's."""
        return self.ours["longest"] - self.plain["longest"]

    def is_over_promise(self):
        return self.ours["longest"] > 1.05 * self.plain["longest"] + PROMISE

    def is_far(self):
        """Whether half of our calls are far above the bound and plain's, and half of plain's are not far above the bound."""
        ours, plain = self.ours["usual"], self.plain["usual"]
        return plain <= FAR * self.bound < ours and ours > plain + FAR_MS

    def line(self):
        kept = ("first", "longest", "usual", "sum")
        return {"convolution": self.name, "way": self.way, "bound_ms": self.bound,
                **{name: {key: its[key] for key in kept} for name, its in (("plain", self.plain), ("ours", self.ours))}}  # fmt: skip

    def cells(self):
        sides = (f"{side[what]:.2f}" for side in (self.plain, self.ours) for what in ("first", "longest", "usual"))
        return [self.name, self.way, *sides, f"{self.bound:.3f}"]


HEADER = ["convolution", "way", "plain ms", "with us", "ratio", "bound", ""]


def by_kind(pairs):
    """Geometric means and extremes of the ratios, for groups of pairs and for all."""
    groups = {"all": pairs}
    for pair in pairs:
        for group in (f"{pair.axes}-D", pair.kind, pair.way):
            groups.setdefault(group, []).append(pair)
    yield from aligned([["ours to plain", "directions", "geometric mean", "least", "most", "slower", "settled"],
                        *([group, str(len(its)), f"{mean(its):.3f}", f"{min(pair.ratio for pair in its):.3f}",
                           f"{max(pair.ratio for pair in its):.3f}", str(sum(pair.is_slower() for pair in its)),
                           str(sum(pair.settled for pair in its))] for group, its in groups.items() if its)])  # fmt: skip


def mean(pairs):
    return math.exp(statistics.fmean(math.log(pair.ratio) for pair in pairs))


def worst(pairs):
    slower = sorted((pair for pair in pairs if pair.is_slower()), key=lambda pair: -pair.ratio)
    yield f"{len(slower)} above {LEAST} of plain in all of {TURNS} turns:"
    yield from aligned([HEADER, *(pair.cells() for pair in slower[:40])])
    missing = [pair for pair in pairs if pair.ratio > LEAST and len(pair.turns) < 2]
    if missing:
        yield f"{len(missing)} above {LEAST} at the first look, for whose turns there was no time:"
        yield from aligned([HEADER, *(pair.cells() for pair in missing[:20])])


def scatter(pairs):
    """Plain against plain: of all directions, before ours and after it; and from turn to turn."""
    twice = [pair.plains[1] / pair.plains[0] for pair in pairs if len(pair.plains) == 2]
    again = [pair for pair in pairs if len(pair.turns) > 1]
    turns = [later[0] / earlier[0] for pair in again for earlier, later in itertools.pairwise(pair.turns)]
    spreads = [max(plain) / min(plain) for pair in again for plain in [[its for its, _ in pair.turns]]]
    if twice:
        yield (f"Plain against plain, all directions: {above(twice)} of {len(twice)} above {LEAST}, the most {max(twice):.3f};"
               f" with us against plain, at the first look: {sum(pair.once > LEAST * pair.plains[0] for pair in pairs)}")  # fmt: skip
    if turns:
        yield (f"Of the {len(again)} directions in turns, plain against plain of the turn before: {above(turns)} of {len(turns)}"
               f" above {LEAST}, the most {max(turns):.3f}; plain's most to its least: median {statistics.median(spreads):.3f},"
               f" the most {max(spreads):.3f}")  # fmt: skip


def above(ratios):
    return sum(ratio > LEAST for ratio in ratios)


def far(pairs):
    its = sorted((pair for pair in pairs if pair.is_far()), key=lambda pair: -pair.ours / pair.bound)
    yield f"{len(its)} that take over {FAR:.0f} times their bound, and {FAR_MS} ms:"
    yield from aligned([HEADER, *(pair.cells() for pair in its[:40])])


def at_first(pairs):
    """The longest calls before settling, beside plain's, and calls far above their bounds."""
    sums = [sum(side["sum"] for side in sides) for sides in zip(*((pair.plain, pair.ours) for pair in pairs), strict=True)] or [0, 0]
    header = ["convolution, ms", "way", "plain's first", "longest", "median", "our first", "longest", "median", "bound"]
    yield f"The first {FIRST_CALLS} calls of {len(pairs)} directions: {sums[0]:.0f} ms plain, {sums[1]:.0f} with us."
    longest = max(pairs, key=lambda pair: pair.plain["longest"], default=None)
    if longest:
        yield f"Plain's longest call: {longest.plain['longest']:.1f} ms, {longest.name} {longest.way}"
    yield "Those whose longest call is furthest above plain's longest:"
    yield from aligned([header, *(pair.cells() for pair in sorted(pairs, key=lambda pair: -pair.beyond)[:12])])
    its = sorted((pair for pair in pairs if pair.is_far()), key=lambda pair: -pair.ours["usual"] / pair.bound)
    yield f"{len(its)} whose median call takes over {FAR:.0f} times its bound, and {FAR_MS} ms more than plain's, which is within:"
    yield from aligned([header, *(pair.cells() for pair in its[:20])])
