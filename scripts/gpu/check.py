"""Convolutions: their outputs, PyTorch's, and times plain and with us.

Outputs are held against undivided runs', PyTorch's convolutions and captured graphs against double precision. Then
three networks run in three kinds of arithmetic and two layouts under four limits, the most telling first. OUT/table.txt
has the times and the checks, in under 9 minutes. PyTorch is skipped where there is none.
"""

import itertools
import json
import subprocess

from gpu import machine
from gpu.session import Session
from harness import cudnn, variables
from harness.children import last_line
from harness.columns import MEBI, aligned
from harness.cudnn import ROOT
from harness.results import events, whole_lines

BATCHES = {"alexnet": 256, "resnet18": 128, "vgg16": 32}
# convnet's options for a kind of arithmetic as the table names it. Programs ask for tensor cores with half; in float
# cuDNN's default lets some algorithms use them, in TF32.
KINDS = {"float": ["--type", "float", "--math", "default"], "fma": ["--type", "float", "--math", "fma"],
         "half": ["--type", "half", "--math", "tensor-op"]}  # fmt: skip
# Limits, networks, kinds and formats, the most telling limits first.
AXES = (("16MiB", "none", "64MiB", "4MiB"), tuple(BATCHES), tuple(KINDS), ("nchw", "nhwc"))
HEADER = ["network", "batch", "type", "format", "limit", "plain ms", "with us", "speed-up", "plain MiB", "with us",
          "divided", "slower", "planning s", "norms"]  # fmt: skip
LEGEND = """\
Milliseconds an iteration, MiB of workspace of all kernels, seconds of planning; divided: kernels whose
plan has several micro-batches; slower: kernels more than 5% slower than plain; norms: the largest
relative difference of two kernels' results in their norms. float is cuDNN's default, which allows TF32;
fma is float without it; half is with tensor cores.
"""


def add_arguments(parser):
    machine.add_arguments(parser, "library", "convnet", out="build/gpu", seconds=500)
    machine.add_arguments(parser, "python", "cudnn", "host")


def main(options):
    checks = Checks(options)
    checks.torch()
    for kind in KINDS:
        checks.outputs(kind)
    rows = [HEADER, *checks.networks()]
    text = "\n".join([options.gpu, LEGEND, *aligned(rows, left=(0, 2, 3, 4)), "", checks.noted.read_text()])
    (options.out / "table.txt").write_text(text)
    print(text, end="")
    return checks.finish()


class Checks(Session):
    def __init__(self, options):
        super().__init__(options, reserve=60)
        for pattern in ("*.json", "*.jsonl", "*.log"):
            for old in self.out.glob(pattern):
                old.unlink()
        self.variables = machine.environment(LD_LIBRARY_PATH=cudnn.library_path(machine.cudnn_folder(options)))
        self.variables.setdefault("UCUDNN_TUNE_SECONDS", "2")
        self.variables.setdefault("UCUDNN_DATABASE", "off")
        self.say(f"{options.gpu}; libraries in {self.variables['LD_LIBRARY_PATH'] or 'the folders of the loader'}")

    def torch(self):
        """The same version, right convolutions, captured graphs."""
        python, why = machine.python_with_torch(self.options)
        if self.is_over or not python:
            return self.verdict("skipped", "PyTorch", why or "no time left")
        self.say(f"PyTorch of {python}, plain and preloaded")
        said = {}
        for kind, ours in (("plain", {}), ("with", {"LD_PRELOAD": self.options.library})):
            log = self.out / f"torch-{kind}.log"
            command = machine.program("convolutions", self.options.device, python=python)
            self.run(command, 60, machine.torch_environment(**ours), log, subprocess.STDOUT)
            said[kind] = log.read_text().splitlines()

        def lines(kind, begin):
            return [line for line in said[kind] if line.startswith(begin)]

        version = lines("with", "version")
        if not version or version != lines("plain", "version") or "mapped True" not in said["with"]:
            told = f"plain {lines('plain', 'version')}, preloaded {version}: {(said['with'] or ['no message'])[-1]}"
            return self.verdict("WRONG", "PyTorch's versions", told)
        self.verdict("ok", "PyTorch's versions", version[0].removeprefix("version "))
        right, wrong = (len(lines("with", f"convolution {verdict}")) for verdict in ("right", "WRONG"))
        plain = len(lines("plain", "convolution right"))
        told = f"{right} right and {wrong} wrong against double precision; plain {plain} right"
        self.judge((right, wrong) == (8, 0), "PyTorch's convolutions (graph API)", told)
        if self.options.host:
            return self.verdict("skipped", "stream capture", "there is no GPU")
        captures = [last_line("\n".join(lines(kind, "capture"))) for kind in ("with", "plain")]
        is_right = captures[0].startswith("capture right")
        return self.judge(is_right, "stream capture", f"{captures[0]}; plain: {captures[1]}")

    def convnet(self, what, log, most, words, **more):
        """Runs the program, and returns whether it succeeded."""
        command = [self.options.convnet, *words]
        return self.succeeds(what, log, command, most, self.variables | more, log, subprocess.STDOUT)

    def outputs(self, kind):
        """The outputs, micro-batch against whole, on a short run."""
        self.say(f"outputs are checked: alexnet, {kind}")
        what, (log, report) = f"UCUDNN_CHECK, {kind}", (self.out / f"check-{kind}.{end}" for end in ("log", "jsonl"))
        ours = variables.preloaded(self.options.library, report, UCUDNN_CHECK="1", UCUDNN_WORKSPACE_LIMIT="16MiB",
                                   UCUDNN_EXPLORE="unbounded")  # fmt: skip
        words = ["--limit", "16MiB", "--batch", 4 if self.options.host else 32, *KINDS[kind], "--iterations", 1,
                 ROOT / "examples/networks/alexnet.csv"]  # fmt: skip
        if not self.convnet(what, log, 60, words, **ours):
            return
        found = whole_lines(report)
        divisions = {e["division"] for e in found if e["event"] in ("asked", "ran") and is_divided(e)}
        runs = [e for e in found if e["event"] == "checked"]
        compared = [e for e in runs if e["error"] is not None]
        over = [e for e in compared if e["error"] > e["tolerance"]]
        told = (f"{len(runs)} runs of plans, {sum(e['division'] in divisions for e in runs)} of them divided, largest "
                f"difference {max((e['error'] for e in compared), default=0):.1e}, {len(over)} over the tolerance, "
                f"{len(runs) - len(compared)} not comparable")  # fmt: skip
        told += "".join(f"\n         {e['kernel']}: {e['division']}: {e['error']:.1e}" for e in over[:5])
        self.judge(runs and not over, what, told)

    def networks(self):
        """Runs the networks, and returns a row for each run that began."""
        skipped = []
        for limit, network, kind, layout in itertools.product(*AXES):
            cell = (network, kind, layout, limit)
            if self.is_over:
                skipped.append("/".join(cell))
                continue
            self.say(f"{network}, {kind}, {layout}, limit {limit}")
            for ours in (False, True):
                self.network(cell, ours)
            yield row(self.out, cell)
        if skipped:
            self.verdict("skipped", f"{len(skipped)} runs for want of time", " ".join(skipped))

    def network(self, cell, ours):
        """One run; its report is left in the folder."""
        network, kind, layout, limit = cell
        name, more = name_of(cell, ours), {}
        log, report = (self.out / f"{name}.{end}" for end in ("log", "json"))
        if ours:
            more = variables.preloaded(self.options.library, self.out / f"{name}.jsonl", UCUDNN_LOG="info",
                                       UCUDNN_EXPLORE="unbounded")  # fmt: skip
            more |= {"UCUDNN_WORKSPACE_LIMIT": limit} if limit != "none" else {}
        batch, iterations = (2, 1) if self.options.host else (BATCHES[network], 10)
        words = ["--limit", limit, "--batch", batch, *KINDS[kind], "--format", layout,
                 "--iterations", iterations, "--warmup", 2, "--json", report,
                 ROOT / f"examples/networks/{network}.csv"]  # fmt: skip
        if not self.convnet(name, log, 90, words, **more):
            report.unlink(missing_ok=True)


def name_of(cell, ours):
    return "-".join((*cell, "with" if ours else "plain"))


def row(folder, cell):
    network, kind, layout, limit = cell
    files = [folder / f"{name_of(cell, ours)}.json" for ours in (False, True)]
    if not all(file.exists() for file in files):
        return [network, "", kind, layout, limit] + ["–"] * (len(HEADER) - 5)
    plain, ours = (json.loads(file.read_text()) for file in files)
    pairs = list(zip(plain["kernels"], ours["kernels"], strict=True))
    norms = max(abs(b["norm"] - a["norm"]) / a["norm"] if a["norm"] and b["norm"] else float("inf") for a, b in pairs)
    plans = {e["kernel"]: e for e in events(files[1].with_suffix(".jsonl"), "asked", "ran")}
    slower = sum(b["median_ms"] > 1.05 * a["median_ms"] for a, b in pairs)
    return [
        network, str(plain["kernels"][0]["x"][0]), kind, layout, limit,
        f"{plain['total_ms']:.2f}", f"{ours['total_ms']:.2f}", f"{plain['total_ms'] / ours['total_ms']:.2f}×",
        f"{plain['workspace_total'] / MEBI:.1f}", f"{ours['workspace_total'] / MEBI:.1f}",
        f"{sum(map(is_divided, plans.values()))}/{len(pairs)}", str(slower), f"{ours['asking_ms'] / 1e3:.1f}",
        f"{norms:.0e}",
    ]  # fmt: skip


def is_divided(plan):
    return sum(part["count"] for part in plan["parts"]) > 1
