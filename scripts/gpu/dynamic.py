"""Nets over graphs: exactness, bits, compute-sanitizer, times beside PyTorch's, and what parts of the executor are worth;
if they are named, the experiments of VPPS and of Cavs.

In OUT, checks.txt has the checks, table.txt the times and worths, dynamic.svg their picture.
"""

import json
import subprocess

from gpu import dynamic_picture, machine
from gpu.sampler.families import EXECUTORS
from gpu.session import TOOLS, Session
from harness import children

# The nets and types that are timed. The picture has those in float.
TIMED = (("tree-lstm", "float"), ("tree-lstm", "bfloat16"), ("tree-lstm", "TF32"), ("lstm", "float"),
         ("tree-fc", "float"), ("dag-gru", "float"), ("rvnn", "float"), ("bilstm", "float"), ("td-rnn", "float"),
         ("td-lstm", "float"))  # fmt: skip
PARTS = ("checks", "sanitizers", "worths", "executors", "steps", "replays", "times")
# What a loader is worth is seen in steps that follow each other.
IN_A_ROW, FROM_LOADER = 20, "ucudnn step,ucudnn step loader,ucudnn step captured,ucudnn step captured loader"
# They take as long as all others.
EXPERIMENTS = ("vpps", "cavs")

# The experiments of VPPS (Khorasani et al., MICRO 2018, section IV) and of Cavs (Xu et al., USENIX ATC 2018, section 5). Each
# names a net, the options of dynamic_nets.py, the sizes of batches, and the methods.
OURS = "ucudnn,ucudnn captured"
VPPS = [(net, ["--hidden", width], "1,8,32,128", f"{OURS},{beside}")
        for net, beside in (("tree-lstm", "E,GC"), ("bilstm", "E,nn.LSTM"), ("bilstm-char", "E,nn.LSTM"),
                            ("td-rnn", "E,padded"), ("td-lstm", "E,padded"), ("rvnn", "E"))
        for width in (128, 256, 384, 512)]  # fmt: skip
BATCHES = "1,16,64,256"
CAVS = [
    *(("lstm", ["--words", 64, "--hidden", width], BATCHES, f"{OURS},E,nn.LSTM") for width in (64, 256, 512, 1024, 2048)),
    *(("lstm", ["--hidden", width], BATCHES, f"{OURS},E,nn.LSTM") for width in (64, 256, 512, 1024, 2048)),
    *(("tree-fc", ["--leaves", leaves], "1,16,64", f"{OURS},E,complete") for leaves in (32, 64, 128, 256, 512, 1024)),
    *(("tree-lstm", ["--hidden", width], BATCHES, f"{OURS},E,GC") for width in (64, 256, 512, 1024, 2048)),
    *((net, ["--inference"], BATCHES, f"{OURS},E") for net in ("tree-lstm", "lstm")),
    *((net, [], "64", "ucudnn,ucudnn one by one,E") for net in ("tree-lstm", "lstm", "tree-fc")),
]


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-dynamic", seconds=1500)
    machine.add_arguments(parser, "runs", "python", "host")
    parser.add_argument("--rounds", type=int, help="batches that are timed of each size [20; with --host 3]")
    machine.add_parts(parser, PARTS, EXPERIMENTS)


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
        self.check("errors")
        self.check("captured", max(runs // 10, 2))
        self.check("loader", max(runs // 10, 2))
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
        for line in log.read_text().splitlines():
            verdict, _, words = line.partition(" ")
            if verdict in ("right", "WRONG"):
                self.judge(verdict == "right", name, words)

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

    def table(self, name, *words, script="dynamic_nets", **more):
        """A run of a timing script: its figures, and its text. The figures are None if it did not end."""
        file, log, errors = (self.out / f"{name}.{ending}" for ending in ("json", "log", "errors.log"))
        file.unlink(missing_ok=True)
        small = ["--batches", "1,2", "--hidden", "32"] if self.options.host else []
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
        """A line for each batch of each experiment: ms, and how many times as fast as the others ours are."""
        lines = ["", f"{paper}: forward and backward unless it says inference; median ms, in float"]
        for number, (net, words, batches, methods) in enumerate(all_of_them):
            what = " ".join([net, *(str(word).removeprefix("--") for word in words)])
            if self.is_over:
                return [*lines, f"{what} and {len(all_of_them) - number - 1} more: no time left"]
            self.say(f"{paper}: {what}")
            name = f"{paper}-{what}".lower().replace(" ", "-")
            sizes = [] if self.options.host else ["--batches", batches]
            found, _ = self.table(name, "--net", net, *words, *sizes, "--methods", methods)
            if not found:
                lines.append(f"{what}: failed")
            for row in found["rows"] if found else []:
                if not row["ratio"]:
                    lines.append(f"{what}: ours does not run")
                    break
                cells = [f"{method} {quartiles[1]:.3f}" for method, quartiles in row["ms"].items()]
                ours = min((name for name in row["ratio"]), key=lambda name: row["ms"][name][1])
                ratios = ", ".join(f"{other} {ratio:.2f}" for other, ratio in row["ratio"][ours].items())
                lines.append(f"{what}, batch {row['batch']}: {', '.join(cells)}; {ours} over {ratios}")
        return lines

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
