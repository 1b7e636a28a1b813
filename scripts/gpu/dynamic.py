"""Nets over graphs: exactness, bits, compute-sanitizer, times beside PyTorch's, and what parts of the executor are worth;
if they are named, the experiments of VPPS and of Cavs, and what the model of the library's choice is fitted to.

In OUT, checks.txt has the checks, table.txt the times and worths, dynamic.svg their picture.
"""

import contextlib
import json
import os
import re
import subprocess
import time

from gpu import dynamic_picture, machine
from gpu.sampler.families import EXECUTORS
from gpu.session import TOOLS, Session
from harness import children

# The nets and types that are timed. The picture has those in float.
TIMED = (("tree-lstm", "float"), ("tree-lstm", "bfloat16"), ("tree-lstm", "TF32"), ("lstm", "float"),
         ("tree-fc", "float"), ("dag-gru", "float"), ("rvnn", "float"), ("bilstm", "float"), ("td-rnn", "float"),
         ("td-lstm", "float"))  # fmt: skip
PARTS = ("errors", "checks", "sanitizers", "worths", "executors", "steps", "replays", "times")
# What a loader is worth is seen in steps that follow each other.
IN_A_ROW, FROM_LOADER = 20, "ucudnn step,ucudnn step loader,ucudnn step captured,ucudnn step captured loader"
# They take as long as all others.
NAMED = ("fit", "vpps", "cavs")
NETS = ("tree-lstm", "rvnn", "tree-fc", "lstm", "bilstm", "bilstm-char", "td-rnn", "td-lstm", "dag-gru")

# The experiments of VPPS (Khorasani et al., MICRO 2018, section IV) and of Cavs (Xu et al., USENIX ATC 2018, section 5). Each
# names a net, the options of dynamic_nets.py, the sizes of batches, and the methods.
OURS = "ucudnn,ucudnn captured"
VPPS = [(net, ["--hidden", widths], "1,8,32,128", f"{OURS},{beside}")
        for net, beside, *all_widths in (
            ("tree-lstm", "E,GC", "256,128,384,512"), ("bilstm", "E,nn.LSTM", "256,128,384,512"),
            ("td-rnn", "E,padded", "256,128,384,512"), ("td-lstm", "E,padded", "256,128,384,512"),
            ("rvnn", "E", "256,128,384,512"),
            # Its kernels take long to compile.
            ("bilstm-char", "E,nn.LSTM", "256", "128", "384", "512"))
        for widths in all_widths]  # fmt: skip
WIDTHS, BATCHES = ["--hidden", "256,1024,64,512,2048"], "1,16,64,256"
CAVS = [
    ("tree-lstm", WIDTHS, BATCHES, f"{OURS},E,GC"),
    ("tree-lstm", ["--inference"], BATCHES, f"{OURS},E"),
    ("lstm", ["--inference"], BATCHES, f"{OURS},E"),
    ("lstm", ["--words", 64, *WIDTHS], BATCHES, f"{OURS},E,nn.LSTM"),
    *(("tree-fc", ["--leaves", leaves], "1,16,64", f"{OURS},E,complete") for leaves in (256, 32, 1024, 64, 128, 512)),
    ("lstm", WIDTHS, BATCHES, f"{OURS},E,nn.LSTM"),
    *((net, [], "64", "ucudnn,ucudnn one by one,E") for net in ("tree-lstm", "lstm", "tree-fc")),
]
EXPERIMENTAL_ROUNDS = 5


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-dynamic", seconds=1500)
    machine.add_arguments(parser, "runs", "python", "host")
    parser.add_argument("--rounds", type=int, help="batches that are timed of each size [20; with --host 3]")
    machine.add_parts(parser, PARTS, NAMED)


def main(options):
    checks = Checks(options)
    lines = [options.gpu]
    for part in options.parts:
        lines += getattr(checks, part)() or []
    (options.out / "table.txt").write_text("\n".join(lines) + "\n")
    return checks.end("table.txt")


class Checks(Session):
    """Each part returns its lines of the table, if it has some."""

    def __init__(self, options):
        super().__init__(options, reserve=20)
        self.python, self.device = machine.required_torch(options), options.device
        self.variables = machine.torch_environment(LD_PRELOAD=options.library, UCUDNN_POLICY="off", UCUDNN_RNN="off",
                                                   PYTHONUNBUFFERED=1)  # fmt: skip
        self.rounds = options.rounds or (3 if options.host else 20)
        self.say(f"{options.gpu}; {self.python}")

    def script(self, name, *words):
        return machine.program(name, *words, python=self.python, folder=machine.PYTORCH)

    def checks_of(self, what, *numbers):
        return self.script("dynamic_checks", what, self.device, *numbers)

    def checks(self):
        runs = self.options.runs or (5 if self.options.host else 10000)
        few = max(runs // 100, 2)
        self.check("captured", max(runs // 10, 2))
        self.check("loader", max(runs // 10, 2))
        self.check("optimizers", max(runs // 100, 2))
        self.check("bits", runs)
        # Another process runs its own persistent paths on the device meanwhile.
        other = children.begin(self.checks_of("bits", runs), self.variables, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            self.check("captured", few, how="beside another program")
        finally:
            children.end(other)
        self.check("captured", few, how="in groups", UCUDNN_DYNAMIC="persistent:4")

    def check(self, what, *numbers, how="", **more):
        """A check of dynamic_checks.py."""
        name = f"{what} {how}".strip()
        if not self.begins(name, name):
            return
        log = self.out / f"{name.replace(' ', '-')}.log"
        self.succeeds(name, log, self.checks_of(what, *numbers), 200, self.variables | more, log, subprocess.STDOUT)
        self.judge_lines(name, log)

    def judge_lines(self, name, log):
        for line in log.read_text().splitlines():
            verdict, _, words = line.partition(" ")
            if verdict in ("right", "WRONG"):
                self.judge(verdict == "right", name, words)

    def errors(self):
        """A process for each net: they compile kernels, for which the GPU waits."""
        self.say("errors of all nets")
        commands = {net: self.checks_of("errors", net) for net in NETS}
        for together in self.waves(list(commands)):
            with self.begun({net: commands[net] for net in together}, "errors") as begun:
                for net, (process, log) in begun.items():
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(self.limit(200))
                    self.judge_lines("errors", log)
                    if process.poll() != 0:
                        self.verdict("WRONG", f"errors {net}", children.failure(process.poll(), log))

    @staticmethod
    def waves(these):
        """As many at once as there are cores."""
        cores = os.cpu_count()
        return [these[first : first + cores] for first in range(0, len(these), cores)]

    @contextlib.contextmanager
    def begun(self, commands, what, **more):
        """Processes by their names, each with its log, which end with the block."""
        found = {}
        try:
            for name, command in commands.items():
                path = f"{what}-{name}".lower().replace(" ", "-")
                log, report = (self.out / f"{path}.{ending}" for ending in ("log", "jsonl"))
                report.unlink(missing_ok=True)
                variables = self.variables | {"UCUDNN_REPORT": report, "OMP_NUM_THREADS": 2} | more
                with open(log, "w") as to:
                    process = children.begin(command, variables, stdin=subprocess.PIPE, stdout=to, stderr=to)
                found[name] = process, log
            yield found
        finally:
            for process, _ in found.values():
                children.end(process)

    def sanitizers(self):
        """cublasLt's kernels are left out, in which racecheck sees hazards, and PyTorch's."""
        others = [word for name in ("elementwise", "xmma")
                  for word in ("--kernel-name-exclude", f"kernel_substring={name}")]  # fmt: skip
        sanitizer = self.find_sanitizer()
        for tool in TOOLS if sanitizer else ():
            if self.begins(tool, tool):
                log = self.out / f"{tool}.log"
                command = [sanitizer, "--tool", tool, *others, *self.script("dynamic_checks", "small", "cuda")]
                self.run(command, 150, self.variables, log, subprocess.STDOUT)
                said = log.read_text()
                summary = [line for line in said.splitlines() if "SUMMARY" in line] or ["no summary"]
                self.judge(machine.is_clean(said) and "right ran" in said, tool, summary[-1].strip("= "))

    def table(self, name, *words, script="dynamic_nets", has_small=True, **more):
        """A run of a timing script, which has small sizes to try: its figures, and its text. The figures are None if it did
        not end."""
        file, log, errors = (self.out / f"{name}.{ending}" for ending in ("json", "log", "errors.log"))
        file.unlink(missing_ok=True)
        small = ["--batches", "1,2", "--hidden", "32"] if self.options.host and has_small else []
        command = self.script(script, "--device", self.device, "--rounds", self.rounds, "--json", file, *words, *small)
        if not self.succeeds(name, errors, command, 300, self.variables | more, log, errors):
            return None, log.read_text()
        return json.loads(file.read_text()), log.read_text()

    def times(self):
        tables, lines = [], []
        for net, of_type in TIMED:
            name, found, text = f"{net}-{of_type}", None, f"{net}-{of_type}: no time left"
            if self.begins(name, f"times of {net} in {of_type}"):
                found, text = self.table(name, "--net", net, "--type", of_type)
            lines += ["", text]
            tables += [found] if found and of_type == "float" else []
        (self.out / "dynamic.svg").write_text(dynamic_picture.draw(tables, self.options.gpu))
        return lines

    def vpps(self):
        return self.experiments("VPPS", VPPS)

    def cavs(self):
        return self.experiments("Cavs", CAVS)

    def experiments(self, paper, all_of_them):
        """A line for each batch of each experiment: ms, how many times as fast as the others ours are, the groups of blocks,
        and the weights that a batch loads. Processes make kernels and batches ready beside each other; then they time one
        after the other."""
        lines = ["", f"{paper}: forward and backward unless it says inference; median ms, in float. MB: the weights that a "
                     "batch loads, (with launches for each level)"]  # fmt: skip
        named = {experiment_name(*its): its for its in all_of_them}
        compiled = []
        for names in self.waves(list(named)):
            commands = {name: self.experiment(paper, name, *named[name]) for name in names}
            with self.begun(commands, paper) as begun:
                self.say(f"{paper}: making {', '.join(names)} ready")
                self.wait_until_ready(begun)
                for name, (process, log) in begun.items():
                    lines += self.rows(paper, name, process, log)
                    compiled.append(compile_times(name, log.with_suffix(".jsonl")))
        return [*lines, "", f"{paper}: seconds to compile a net's kernels, by its parameters", *compiled]

    def experiment(self, paper, name, net, words, batches, methods):
        """The command."""
        small = ["--batches", "1,2", "--hidden", "32,16"] if self.options.host else ["--batches", batches]
        rounds = self.options.rounds or (3 if self.options.host else EXPERIMENTAL_ROUNDS)
        return self.script("dynamic_nets", "--device", self.device, "--rounds", rounds, "--json", self.json(paper, name),
                           "--net", net, *words, *small, "--methods", methods, "--waits")  # fmt: skip

    def json(self, paper, name):
        return self.out / f"{paper}-{name}.json".lower().replace(" ", "-")

    def wait_until_ready(self, begun):
        """Waits until each process is ready or has ended, or most of the time is over."""
        until = time.monotonic() + 0.55 * self.left
        is_ready = lambda process, log: process.poll() is not None or "\nready\n" in log.read_text()
        while time.monotonic() < until and not all(is_ready(*its) for its in begun.values()):
            time.sleep(0.2)

    def rows(self, paper, name, process, log):
        """Lets a process time, and returns its lines."""
        self.wait_until_ready({name: (process, log)})
        if "\nready\n" not in log.read_text():
            return [f"{name}: " + (children.failure(process.poll(), log) if process.poll() else "not ready in time")]
        if self.is_over:
            return [f"{name}: no time left"]
        self.say(f"{paper}: {name}")
        file = self.json(paper, name)
        file.unlink(missing_ok=True)
        process.stdin.write("\n")
        process.stdin.flush()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.limit(300))
        weights = reported_weights(log.with_suffix(".jsonl"))
        rows = json.loads(file.read_text())["rows"] if file.exists() else []
        lines = [experiment_line(name, row, weights.get((row["parameters"], row["batch"]))) for row in rows]
        return lines if process.poll() == 0 else [*lines, f"{name}: {children.failure(process.poll(), log)}"]

    def fit(self):
        """Replays of steps by each executor, to which the model of the library's choice is fitted."""
        self.say("replays by executors")
        return ["", self.table("fit", script="dynamic_paths", has_small=False)[1]]

    def steps(self):
        """Whole steps of training; then several in a row, also with batches from a loader."""
        lines = []
        for name, words in (("steps", []), ("steps in a row", ["--in-a-row", IN_A_ROW, "--methods", FROM_LOADER])):
            if self.is_over:
                return [*lines, "", f"{name}: no time left"]
            self.say(f"times of {name}")
            lines += ["", self.table(name.replace(" ", "-"), *words, script="dynamic_steps")[1]]
        return lines

    def replays(self):
        """The device's time of captured steps, and of their kernels."""
        lines = []
        for of_type in () if self.options.host else ("float", "bfloat16"):
            if self.is_over:
                return [*lines, "", f"replays in {of_type}: no time left"]
            self.say(f"replays of steps in {of_type}")
            lines += ["", self.table(f"replays-{of_type}", "--type", of_type, script="dynamic_replays")[1]]
        return lines

    def worths(self):
        """What fusion, and products of whole batches, make faster: each is left out in a process of its own, and the
        times are ratios to eager PyTorch's there."""
        ratios = {}
        for dynamic in ("batched", "unfused", "unbatched"):
            if self.is_over:
                return ["the worth of parts: no time left"]
            self.say(f"times of {dynamic}")
            found, _ = self.table(dynamic, "--methods", "ucudnn,E", "--batches", "64", UCUDNN_DYNAMIC=dynamic)
            if not found:
                return [f"the worth of parts: {dynamic} failed"]
            ratios[dynamic] = found["rows"][-1]["ratio"]["ucudnn"]["E"]
        worth = {name: ratios["batched"] / ratio for name, ratio in ratios.items()}
        return [f"Tree-LSTM, 64 trees: fusion makes it {worth['unfused']:.2f} times as fast, products of whole batches "
                f"{worth['unbatched']:.2f} times (Cavs: 1.2 each)"]  # fmt: skip

    def executors(self):
        """How many times as fast as eager PyTorch captured Tree-LSTMs are by each executor."""
        lines = ["", "Tree-LSTM, captured (times as fast as eager PyTorch)"]
        for executor in EXECUTORS:
            if self.is_over:
                return [*lines, f"{executor}: no time left"]
            self.say(f"times of {executor}")
            found, _ = self.table(f"executor-{executor.replace(':', '-')}", "--methods", "ucudnn captured,E",
                                  UCUDNN_DYNAMIC=executor)  # fmt: skip
            if not found:
                return [*lines, f"{executor}: failed"]
            ours = "ucudnn captured"
            cells = [f"{row['batch']} trees {row['ms'][ours][1]:.3f} ms ({row['ratio'][ours]['E']:.1f})"
                     for row in found["rows"]]  # fmt: skip
            lines.append(f"{executor}: " + ", ".join(cells))
        return lines


def experiment_name(net, words, batches, methods):
    its = " ".join([net, *map(str, words)])
    its = (its.partition(" --hidden")[0] if "," in its else its).replace("--", "")
    return f"{its} one by one" if "one by one" in methods else its


def experiment_line(name, row, weights):
    """A row of an experiment in one line."""
    short = lambda method: method.replace("ucudnn captured", "captured").replace("ucudnn ", "")
    cells = [f"{short(method)} {quartiles[1]:.3g}" for method, quartiles in row["ms"].items()]
    line = f"{name}, H {row['hidden']}, batch {row['batch']}: {', '.join(cells)}"
    if row["ratio"]:
        ours = min(row["ratio"], key=lambda method: row["ms"][method][1])
        line += f"; {short(ours)} over " + ", ".join(f"{other} {ratio:.2f}" for other, ratio in row["ratio"][ours].items())
    if weights:
        by_path, by_levels = ((weights["weights"][key] + weights["weights"]["whole batches"]) / 1e6 for key in ("path", "levels"))
        groups = f"{weights['groups']} groups" if weights["groups"] else "levels"
        line += f"; {groups}, {by_path:.1f} MB ({by_levels:.1f})"
    return line


def reported(report):
    """The lines of a report about nets, each with the number of the net's parameters."""
    parameters, lines = 0, report.read_text().splitlines() if report.exists() else []
    for line in map(json.loads, lines):
        if line["event"] == "dynamic":
            parameters = int(re.search(r"(\d+) parameters", line["net"])[1])
        if line["event"].startswith("dynamic"):
            yield parameters, line


def reported_weights(report):
    """What was reported of a static batch, by its net's parameters and its number of graphs."""
    return {(parameters, line["graphs"]): line for parameters, line in reported(report) if line["event"] == "dynamic-batch"}


def compile_times(name, report):
    seconds = {}
    for parameters, line in reported(report):
        seconds[parameters] = seconds.get(parameters, 0) + line.get("seconds", 0)
    return f"{name}: " + ", ".join(f"{parameters:,} {its:.1f}" for parameters, its in seconds.items())
