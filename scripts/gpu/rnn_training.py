"""Training of recurrent networks: errors, times beside cuDNN's, repeated passes, first steps, programs, sanitizers.

PyTorch runs the same networks plain and with us (examples/pytorch/rnn_training.py and rnn_networks.py). Before times
are taken, processes side by side compile the kernels. Bars are on the 20 LSTM layers of each type, and on those with a
projection: the geometric mean, and each layer. A layer is timed in PyTorch, captured and eager, by --processes plain and
as many with us, which take turns; medians count. Where the host determines an eager step that is near plain's, each
process visits the layer several times and gives the least. `eager` does so in 5 processes of each kind with the layers in
bfloat16 and half, and ppo with PPO's programs in half. The calls of layers without a projection are timed without PyTorch
by `ucudnn tune`, beside the fastest of cuDNN's algorithms; they have the first bar only. `host` times the host in these
calls. The command ends with 1 if anything is wrong, or a bar is not held. OUT then holds
  checks.txt   a line for each check: ok, WRONG, or skipped, and why
  times.txt    the layers' times in PyTorch, plain and ours
  calls.txt    the calls' times, cuDNN's and ours
  host.txt     the host's time of the calls, until they return
  *.json       full results of each part; *.log, what its script printed; *.report.jsonl, what the library chose
  calls/       the same of the calls, by type and algorithm, with a database for each type
  kernels/     compiled kernels: the same command again finds them
  memcheck-*.log, synccheck-*.log, racecheck-*.log   compute-sanitizer's words
"""

import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from gpu import machine, rnn_calls
from gpu.session import TOOLS, Session, sanitizing
from harness import turns
from harness.arguments import count, is_like
from harness.children import Ended, failure, last_line
from harness.columns import aligned
from harness.cudnn import library_path
from harness.results import events
from harness.variables import fresh

sys.path.append(str(machine.PYTORCH))
import rnn_networks  # noqa: E402
import rnn_training  # noqa: E402

PARTS = ("errors", "times", "projections", "repeats", "first", "networks", "calls", "host", "sanitizers")
# Of several processes; on 16 processors `eager` takes some 140 seconds and what later visits take, and ppo 50.
INTERLEAVED = ("eager", "ppo")
# How many times as fast the layers of a type are to be in the geometric mean, and each of them.
BARS, LEAST = {"bfloat16": 2.3, "tf32": 2.5, "half": 1.7, "float": 2.0}, 0.98
# Likewise of LSTMs with a projection.
PROJECTED_BARS = {"bfloat16": 1.5, "half": 1.5, "tf32": 1.0}
WAYS = ("captured", "eager")
# What the table of times holds.
TAKEN = """A time is the median of processes. With several visits, the host determines the layer's eager step: each process
gives the least of its visits, each of which is a median of 30 steps. By medians: how many times as fast a layer is if each
process gives the median of its visits instead. A layer that looks far faster than plain at first is visited once."""
# The processes of each kind that are timed in turns, and the least of each eager layer in their median.
PROCESSES, LEAST_EAGER = 5, 0.97
# The layers whose calls the host is timed in, the processes of each kind, and the most microseconds that the three calls
# may take above plain's: three hundredths of PyTorch's step of a small layer.
ON_HOST, HOST_PROCESSES, MOST_ON_HOST = ("half/H128 B8", "half/H128 B256", "half/H1024 B8"), 3, 30.0
# Networks whose layers run in blocks, in clusters of them, and on the whole grid.
BLOCKS, CLUSTERS, GRIDS = "small/gru/*/L2*D2/packed", "small/lstm/*/L1 H200*", "small/lstm/*/L1 H1024*"
# The cases that run with --host.
FEW = {"errors": "small/lstm/float/*D1/seq", "first": "lstm/float/H128 B8", "networks": "ppo*"}


def add_arguments(parser):
    machine.add_arguments(parser, "library", "command", out="build/gpu-rnn-training", seconds=1800)
    machine.add_arguments(parser, "runs", "python", "cudnn", "host")
    parser.add_argument("--processes", type=count, default=3, help="of each kind that times a layer [%(default)s]")
    machine.add_parts(parser, PARTS, more=INTERLEAVED)
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="layers of the part `eager`, such as 'lstm/half/H256 *'; may be given several times [all]")  # fmt: skip


def main(options):
    checks = Checks(options)
    for part in options.parts:
        getattr(checks, part.replace("-", "_"))()
    return checks.end("times.txt", "calls.txt", "host.txt", *(["networks.log"] if "networks" in options.parts else []))


def layers_like(pattern):
    return list(rnn_training.layers(pattern))


def speedups(line):
    """How many times as fast a layer's step is with us, for each of WAYS that was timed."""
    plain, ours = line["plain"]["times"], line["ours"]["times"]
    return {way: plain[way] / ours[way] for way in WAYS if way in plain}


def least(line):
    return min(speedups(line).values())


def of_host(answers, call):
    """Microseconds of a call: of what nine of ten calls take at least, and of the median, the median of the processes."""
    return [statistics.median(one[call][which] for one in answers) for which in range(2)]


def on_host(found):
    """The table of the host's times: of each layer, the question for sizes, the calls, and the sum of these."""
    yield ["µs until a call returns", "9 of 10 take at least", "ours", "more", "median", "ours"]
    for name, its in found.items():
        rows = {call: [of_host(its[kind], call) for kind in ("plain", "ours")] for call in ("sizes", *rnn_calls.CALLS)}
        sums = [[sum(times) for times in zip(*side)] for side in zip(*map(rows.get, rnn_calls.CALLS))]
        for call, (plain, ours) in (rows | {"three calls": sums}).items():
            yield [f"lstm/{name}, {call}", f"{plain[0]:.1f}", f"{ours[0]:.1f}", f"{ours[0] - plain[0]:+.1f}",
                   f"{plain[1]:.1f}", f"{ours[1]:.1f}"]  # fmt: skip


def row(line):
    """The cells of a layer's times."""
    plain, ours, faster = line["plain"]["times"], line["ours"]["times"], speedups(line)
    known = lambda way: (f"{plain[way]:.3f}", f"{ours[way]:.3f}", f"{faster[way]:.2f}")  # noqa: E731
    cells = [cell for way in WAYS for cell in (known(way) if way in faster else ("–",) * 3)]
    visits, by_median = line["ours"]["visits"], "–"
    if visits > 1:
        by_median = f"{line['plain']['usual']['eager'] / line['ours']['usual']['eager']:.2f}"
    return [line["case"], *cells, str(visits), by_median, ", ".join(line["ours"]["chosen"] or ["undecided"])]


class Checks(Session):
    def __init__(self, options):
        super().__init__(options, reserve=1)
        # If a part lacks something, the command ends here, before anything runs.
        self.python = machine.required_torch(options) if options.parts != ["calls"] else None
        if "calls" in options.parts:
            self.command = pathlib.Path(self.options.command or self.options.library.with_name("ucudnn")).resolve()
            if not os.access(self.command, os.X_OK):
                machine.stop(f"--command {self.command}: there is no such program")
            self.libraries = library_path(machine.cudnn_folder(options))
        self.device = ["--device", options.device]
        self.rows = [["", *(cell for way in WAYS for cell in (f"{way} ms", "ours", "faster")), "visits", "by medians", "forward, backward"]]
        (self.out / "kernels").mkdir(exist_ok=True)
        for table in ("times.txt", "calls.txt", "host.txt"):
            (self.out / table).unlink(missing_ok=True)
        self.say(options.gpu)

    def script(self, name, *words):
        return machine.program(name, *self.device, *words, python=self.python, folder=machine.PYTORCH)

    def few(self, part):
        return ["--only", FEW[part]] if self.options.host else []

    def judged(self, script, part, most, *words, **variables):
        """Runs a script, whose exit status is the verdict. Returns its results."""
        results, log, report = (self.out / f"{part}.{ending}" for ending in ("json", "log", "report.jsonl"))
        for old in (results, report):
            old.unlink(missing_ok=True)
        if not self.begins(part, part):
            return []
        command = self.script(script, "--shim", self.options.library, "--json", results, "--report", report, *words)
        status = self.run(command, most, machine.torch_environment(**variables), log, subprocess.STDOUT)
        if not results.exists():
            self.verdict("WRONG", part, failure(status, log))
            return []
        lines = log.read_text().splitlines()
        for line in lines:
            if line.startswith(("WRONG ", "below ")):
                self.verdict("WRONG", part, line)
        told = last_line(log.read_text()).removeprefix("ok    ")
        self.verdict("WRONG" if status else "skipped" if told.startswith("skipped") else "ok", part, told)
        return json.loads(results.read_text())

    def settings(self, group):
        """The variables of runs that share compiled kernels. Of earlier runs only these are there."""
        return {"UCUDNN_DATABASE": fresh(self.out / f"kernels/{group}.sqlite"), "UCUDNN_EXPLORE": "unbounded"}

    def compiled(self, part, most, runs):
        """Makes runs, each a group, a script and its words, side by side. Their times are of no use."""
        if self.is_over or self.options.host:
            return
        self.say(f"{part}: kernels are compiled, {len(runs)} runs on {os.cpu_count()} processors")
        groups = {group: self.settings(group) for group, *_ in runs}

        def one(numbered):
            number, (group, script, *words) = numbered
            report = self.out / f"compiled-{part}-{number}.jsonl"
            variables = machine.ours(self.options, report, UCUDNN_RNN_TRAINING="auto", **groups[group])
            log = self.out / f"compiled-{part}-{number}.log"
            return self.run(self.script(script, *words), most, machine.torch_environment(**variables), log, subprocess.STDOUT)

        # A process waits now and then for the device, or for its first passes.
        with ThreadPoolExecutor(2 * os.cpu_count()) as pool:
            statuses = list(pool.map(one, enumerate(runs)))
        if failed := [str(status) for status in statuses if status]:
            self.verdict("WRONG", f"{part}: kernels are compiled", f"runs ended with {' '.join(failed)}")
        self.say(f"{part}: kernels are compiled")

    def errors(self):
        self.judged("rnn_training", "errors", 400, *self.few("errors"))

    def repeats(self):
        self.judged("rnn_training", "repeats", 400, "--repeats", self.options.runs or (20 if self.options.host else 10000))

    def first(self):
        self.judged("rnn_training", "first", 300, "--first-steps", *self.few("first"))

    def times(self):
        for precision, bar in BARS.items():
            self.layers(f"times-{precision}", layers_like(f"lstm/{precision}/*"), {precision: bar}, LEAST)

    def projections(self):
        """LSTMs with a projection."""
        self.layers("projections", layers_like("projected/*"), PROJECTED_BARS, LEAST)

    def eager(self):
        """The LSTM layers in types of two bytes; --only chooses some."""
        kinds = ("bfloat16", "half")
        names = [name for kind in kinds for name in layers_like(f"lstm/{kind}/*") if is_like(name, self.options.only)]
        self.layers("eager", names, dict.fromkeys(kinds, 1.0), LEAST_EAGER, PROCESSES, ["eager"])

    def layers(self, part, names, bars, least_of_all, processes=None, ways=rnn_training.WAYS):
        """The layers of these names, with a bar for those of each type, and one for all."""
        if self.options.host:
            return self.verdict("skipped", part, "there is no GPU")
        self.compiled(part, min(300, self.left / 2), [(part, "rnn_training", "--run", "--times", "--ways", "eager", "--only", name) for name in names])
        words = ["--times", "--ways", ",".join(ways), "--layers", ",".join(names), "--processes", processes or self.options.processes,
                 "--seconds", f"{max(self.left - 5, 1):.0f}"]  # fmt: skip
        found = self.judged("rnn_training", part, 600, *words, **self.settings(part))
        if not found:
            return None
        if len(found) < len(names):
            self.verdict("skipped", part, f"no time left for {', '.join(names[len(found) :])}")
        self.rows += map(row, found)
        (self.out / "times.txt").write_text("\n".join([self.options.gpu, TAKEN, *aligned(self.rows, left=(0, 9))]) + "\n")
        for precision, bar in bars.items():
            its = [speedups(line) for line in found if f"/{precision}/" in line["case"]]
            for way in WAYS if its else ():
                if way in its[0]:
                    self.mean(f"{part}, {precision}", way, [one[way] for one in its], bar)
        worst = min(found, key=least)
        told = f"each at least {least(worst):.2f} times as fast, {worst['case']}; the bar is {least_of_all}"
        return self.judge(least(worst) >= least_of_all, part, told)

    def ppo(self):
        """PPO's programs in half, in several processes."""
        if self.options.host:
            return self.verdict("skipped", "ppo", "there is no GPU")
        names = list(rnn_networks.cases("ppo-*/half"))
        self.compiled("ppo", 200, [("ppo", "rnn_networks", "--run", name) for name in names])
        return self.judged("rnn_networks", "ppo", 300, "--floors", "--only", "ppo-*/half", "--processes", PROCESSES,
                           "--seconds", f"{max(self.left - 5, 1):.0f}", **self.settings("ppo"))  # fmt: skip

    def mean(self, part, way, its, bar):
        mean = statistics.geometric_mean(its)
        told = f"{way}, {mean:.2f} times as fast in the mean of {len(its)} layers; the bar is {bar}"
        self.judge(mean >= bar, part, told)

    def calls(self):
        """The three calls of the same layers, without PyTorch."""
        sizes = [(16, 2)] if self.options.host else list(itertools.product(rnn_training.HIDDEN, rnn_training.BATCHES))
        steps = 4 if self.options.host else rnn_training.LENGTH
        calls = rnn_calls.Calls(self, self.command, self.libraries, sizes, steps)
        for kind, bar in BARS.items():
            part = f"calls-{kind}"
            if not self.begins(part, part):
                continue
            layers, wrong = calls.timed(kind)
            (self.out / "calls.txt").write_text(f"{self.options.gpu}\n{calls.table()}")
            if wrong:
                self.verdict("WRONG", part, wrong)
            elif self.options.host:
                self.verdict("ok", part, f"{len(layers)} layers were timed")
            else:
                self.mean(part, "three calls", [layer.faster for layer in layers], bar)

    def host(self):
        """The host's time of the three calls, until they return: plain and ours forced, in processes that take turns."""
        if not self.begins("host", "host"):
            return
        names, steps = (("float/H16 B2",), 4) if self.options.host else (ON_HOST, rnn_training.LENGTH)
        command = machine.program("rnn_host", self.options.device, steps, python=self.python)
        # PyTorch may bring a cuDNN for GPUs.
        hostdnn = [self.options.library.with_name("libhostdnn.so")] if self.options.host else []
        variables = rnn_training.FORCED | self.settings("host") | {"UCUDNN_CUDNN_LIBRARY": file for file in hostdnn}
        reports = [self.out / f"host-{number}.report.jsonl" for number in range(1 if self.options.host else HOST_PROCESSES)]
        ours = [machine.torch_environment(**machine.ours(self.options, report, **variables)) for report in reports]
        kinds = {"plain": [([*command, *hostdnn], machine.torch_environment())] * len(ours),
                 "ours": [(command, its) for its in ours]}  # fmt: skip
        try:
            found = dict(turns.answers(kinds, names, lambda: self.left))
        except Ended as why:
            return self.verdict("WRONG", "host", str(why))
        (self.out / "host.json").write_text(json.dumps(found, indent=1) + "\n")
        (self.out / "host.txt").write_text("\n".join([self.options.gpu, *aligned(list(on_host(found)), left=(0,))]) + "\n")
        trained = [rnn_training.is_ours([event["forward"]]) for report in reports for event in events(report, "rnn-training")]
        self.judge(any(trained), "host: our kernels", f"{sum(trained)} of {len(trained)} networks")
        for name, its in found.items():
            plain, ours = (sum(of_host(its[kind], call)[0] for call in rnn_calls.CALLS) for kind in ("plain", "ours"))
            seen = f"three calls {ours:.1f} us, plain {plain:.1f}"
            if self.options.host:
                self.verdict("skipped", f"host's time, {name}", f"kernels are emulated here; {seen}")
            else:
                self.judge(ours - plain <= MOST_ON_HOST, f"host's time, {name}", seen)
        return None

    def networks(self):
        names = list(rnn_networks.cases())
        self.compiled("networks", 200, [("networks", "rnn_networks", "--run", name) for name in names])
        tiny = ["--tiny"] if self.options.host else []
        self.judged("rnn_networks", "networks", 500, "--floors", *tiny, *self.few("networks"), **self.settings("networks"))
        self.judged("rnn_networks", "ddp", 300, "--ddp", *tiny)

    def sanitizers(self):
        sanitizer = self.find_sanitizer()
        for tool in TOOLS if sanitizer else ():
            for number, pattern in enumerate((BLOCKS, CLUSTERS, GRIDS)):
                # racecheck does not know how a cluster's blocks wait for each other.
                if tool != "racecheck" or pattern != CLUSTERS:
                    self.sanitized(sanitizer, tool, f"{tool}-{number}", pattern)

    def sanitized(self, sanitizer, tool, name, pattern):
        what, log, report = f"{tool}, {pattern}", self.out / f"{name}.log", self.out / f"{name}.jsonl"
        if not self.begins(what, what):
            return None
        # Without PyTorch's cache each tensor is an allocation, whose ends the tool knows.
        variables = machine.ours(self.options, report, UCUDNN_DATABASE="off", PYTORCH_NO_CUDA_MEMORY_CACHING=1,
                                 **rnn_training.FORCED)  # fmt: skip
        command = [*sanitizing(sanitizer, tool, log, "--target-processes", "all"), *machine.setting(variables),
                   *self.script("rnn_training", "--run", "--only", pattern)]  # fmt: skip
        said = self.out / f"{name}.out"
        status = self.run(command, 240, machine.torch_environment(), said, subprocess.STDOUT)
        if status is None:
            return self.verdict("skipped", what, "took too long")
        ours = sum(rnn_training.is_ours([event["forward"]]) for event in events(report, "rnn-training"))
        is_clean = status == 0 and machine.is_clean(log.read_text())
        told = f"{ours} networks on our kernels"
        if not is_clean:
            told = f"{failure(status, said)}; {last_line(log.read_text())}"
        return self.judge(is_clean and ours, what, told)
