"""PyTorch's training steps plain and under libucudnn.so, in turns: runs the missing cells, then writes the table.

    python table.py --shim target/release/libucudnn.so --out build/pytorch-table --seconds 600

OUT then holds results.jsonl (a line for each cell; finished cells are not run again), table.txt, table.svg, cache.txt
(times over micro-batch sizes), report.jsonl (the library's timings and choices), tuning.sqlite (its database), and
work/, which may be deleted. The most valuable cells come first, so the command may be stopped at any time.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import time

import finds_harness  # noqa: F401
import cache
import cells
import picture
import summary
from harness import arguments, variables
from harness.budget import Budget
from harness.children import Child, last_line, python
from harness.continued import Continued, print_list
from harness.results import append, events, whole_lines
from results import Results

HERE = pathlib.Path(__file__).resolve().parent
# Options for trying the scripts on a CPU, where measurements mean nothing.
TINY = ["--tiny", "--least", "2", "--most", "4", "--seconds", "0.05"]
# The time of a run before any run has been seen, in seconds.
GUESS = 25.0
KEPT = ("event", "kernel", "batch", "algorithm", "workspace", "time_ms", "division", "parts", "undivided_ms", "limit")


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add(parser, "out", "seconds", "again", "list", "device",
                  shim={"help": "libucudnn.so; without it nothing is run, and what is there is shown"},
                  only={"help": "only cells like this: network/layout/precision/benchmark/mode/policy, with * and ?, "
                        "as 'resnet50/nchw/half/off/*/64MiB'; may be given several times"})  # fmt: skip
    parser.add_argument("--rounds", type=arguments.count, default=2, help="runs of each kind, in turns [2]")
    parser.add_argument("--modes", type=arguments.some_of(cells.MODES, "mode"),
                        help=f"some of {','.join(cells.MODES)} [all; on a CPU eager]")  # fmt: skip
    parser.add_argument(
        "--run-seconds", type=arguments.above_zero, default=240.0, help="a run that takes longer has failed [240]"
    )
    parser.add_argument("--step", nargs=argparse.REMAINDER, default=[], metavar="…",
                        help="the last option: all that follows goes to step.py (see its --help)")  # fmt: skip
    options = parser.parse_args(words)
    options.modes = options.modes or (cells.MODES if options.device == "cuda" else ("eager",))
    if options.device == "cpu":
        options.step = TINY + options.step
        if "graphs" in options.modes:
            parser.error("--modes graphs: CUDA graphs need --device cuda")
    arguments.check_files(parser, options, "shim")
    if not options.shim and (options.seconds or options.again):
        parser.error("--seconds and --again say how to run; that takes --shim LIBUCUDNN.SO")
    options.turns = list(cells.turns(options.rounds, options.modes, options.only))
    if not options.turns:
        axes = {"networks": cells.NETWORKS, "layouts": cells.LAYOUTS, "precisions": cells.PRECISIONS,
                "benchmark": ("off", "on"), "modes": options.modes, "policies": cells.POLICIES}  # fmt: skip
        there = "; ".join(f"{axis} {', '.join(values)}" for axis, values in axes.items())
        parser.error(f"--only {' '.join(options.only)}: no cell is like this; there are {there}")
    return options


def device_identity(options):
    """A device's unique name; ends the program if PyTorch finds no device."""
    if options.device == "cpu":
        return "cpu"
    program = "import torch; print(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    if found.returncode:
        sys.exit(f"table: {sys.executable} finds no PyTorch with a GPU (--device cpu tries the scripts without one): "
                 f"{last_line(found.stderr)}")  # fmt: skip
    return found.stdout.strip()


def environment():
    """The user's environment, without the library and the policies' variables."""
    policies = {name for policy in cells.POLICIES.values() for name in policy}
    return variables.plain(*policies, "UCUDNN_POLICY", "UCUDNN_DEFAULT_WORKSPACE_LIMIT", "UCUDNN_DATABASE",
                           "UCUDNN_EXPLORE")  # fmt: skip


class Runner(Continued):
    """Runs step.py in child processes, and stores their results."""

    name, what = "table", "runs"

    def __init__(self, options, results):
        super().__init__(options, results)
        self.work = options.out / "work"
        for folder in ("logs", "reports"):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        self.took = {}

    def expected(self, run):
        """The seconds that a run will probably take, from similar runs."""
        for like in ((run.network, run.benchmark, run.modes), (run.network, run.modes), run.modes):
            if like in self.took:
                return statistics.median(self.took[like])
        return GUESS

    def process(self, words, more, log, heard):
        """Runs step.py, and passes on each line. Returns None, or why step.py failed; False if time was up."""
        most = Budget(self.options.run_seconds)
        with Child(python(HERE / "step.py", *words), environment() | more, log) as child:
            for line in child.lines(lambda: min(self.left(), most.left)):
                heard(line)
        if child.is_cut:
            return f"took longer than {most.seconds:.0f} s" if most.is_over else False
        return child.why if child.has_failed else None

    def reference(self, run):
        """The file with the gradients in float64; `None` if there are none."""
        # A device has its own random data, and options have their own sizes.
        here = re.sub(r"[^\w-]+", "-", self.where)
        file = self.work / "gradients" / here / f"{run.network}.pt"
        file.parent.mkdir(parents=True, exist_ok=True)
        failed = file.with_suffix(".failed")
        if not file.exists() and not failed.exists():
            self.say(f"{run.network}: gradients in float64")
            unfinished = file.with_suffix(".new")
            words = ["--network", run.network, "--device", self.options.device, *self.options.step]
            log = self.work / "logs" / f"reference-{run.network}.log"
            why = self.process([*words, "--reference", str(unfinished), "--write-reference"], {}, log, print)
            if why is None:
                unfinished.rename(file)
            elif why:
                self.say(f"{run.network}: no gradients in float64 to compare with: {why}")
                failed.write_text(why)
        return file if file.exists() else None

    def run(self, run):
        name = run.name.replace("/", "_").replace(" ", "-")
        report = self.work / "reports" / f"{name}.jsonl"
        report.unlink(missing_ok=True)
        more = {"TORCHINDUCTOR_CACHE_DIR": self.work / "inductor"}
        if run.policy in cells.POLICIES:
            # Settled times are compared.
            more |= variables.preloaded(self.options.shim, report, UCUDNN_DATABASE=self.options.out / "tuning.sqlite",
                                        UCUDNN_EXPLORE="unbounded", **cells.POLICIES[run.policy])  # fmt: skip
        words = ["--network", run.network, "--layout", run.layout, "--precision", run.precision, "--benchmark",
                 run.benchmark, "--modes", ",".join(run.modes), "--device", self.options.device]  # fmt: skip
        if reference := self.reference(run):
            words += ["--reference", str(reference)]
        waiting = dict(zip(run.modes, run.cells(), strict=True))
        begin = time.monotonic()

        def heard(found):
            cell = waiting.pop(found["mode"])
            self.results.add(cell, found | {"where": self.where})
            unsettled = "" if found["settled"] else ", not settled"
            self.say(f"  {found['mode']}: {found['step_ms']:.2f} ms a step{unsettled}")

        why = self.process([*words, *self.options.step], more, self.work / "logs" / f"{name}.log", heard)
        took = time.monotonic() - begin
        if why is False:
            return
        if why:
            self.say(f"  FAILED: {why}")
            for cell in waiting.values():
                self.results.add(cell, {"failed": why, "where": self.where})
        for like in ((run.network, run.benchmark, run.modes), (run.network, run.modes), run.modes):
            self.took.setdefault(like, []).append(took)
        self.keep_report(run, report)

    def keep_report(self, run, report):
        """Keeps the report's timings and choices, without redundant fields."""
        told = {"configuration": list(run.configuration), "policy": run.policy, "round": run.round}
        if lines := events(report, "timed", "ran", "divided"):
            append(self.options.out / "report.jsonl",
                   [told | {name: line[name] for name in KEPT if name in line} for line in lines])  # fmt: skip

    def run_all(self):
        self.where = " ".join([device_identity(self.options), *self.options.step])
        waiting = [self.results.missing(turn, self.where, self.options.again) for turn in self.options.turns]
        runs = [run for turn in waiting for run in turn]
        self.say_begin(sum(map(len, self.options.turns)) - len(runs), len(runs))
        for number, run in enumerate(runs, 1):
            if self.left() < 0.7 * self.expected(run):
                break
            rest = sum(map(self.expected, runs[number - 1 :]))
            left = f", {self.left():.0f} s of the budget" if self.options.seconds else ""
            self.say(f"{number} of {len(runs)}, about {rest / 60:.0f} min in all{left}: {run.name}")
            self.run(run)
            if self.left() <= 0:
                break
        else:
            return
        self.say_end(len(runs) - number + 1)


def write(options, results):
    """Writes the table, its picture and the times over micro-batch sizes, for all finished cells."""
    rows = summary.rows(results.lines.values(), options.only)
    text = summary.text(rows, [line for line in results.lines.values() if "failed" in line])
    (options.out / "table.txt").write_text(text)
    (options.out / "table.svg").write_text(picture.draw(rows))
    told = options.out / "report.jsonl"
    if told.exists():
        (options.out / "cache.txt").write_text(cache.text(list(whole_lines(told))))
    print(text)
    written = ["table.txt", "table.svg", *(["cache.txt"] if told.exists() else [])]
    print(f"table: written: {options.out}/{', '.join(written)}", file=sys.stderr)


def main():
    options = parse_arguments()
    if options.list:
        return print_list(run.name for turn in options.turns for run in turn)
    options.out.mkdir(parents=True, exist_ok=True)
    results = Results(options.out / "results.jsonl")
    if options.shim:
        Runner(options, results).run_until_stopped()
    write(options, results)


if __name__ == "__main__":
    sys.exit(main())
