"""The calls of training passes without a framework: cuDNN's algorithms beside ours, as `ucudnn tune` times them."""

import itertools
import json
import math
import pathlib
import subprocess

from gpu import machine
from harness.children import failure
from harness.columns import aligned

# As PyTorch asks for them.
TYPES = {"float": {"type": "float", "math": "fma"}, "tf32": {"type": "float", "math": "default"},
         "half": {"type": "half", "math": "tensor-op"}, "bfloat16": {"type": "bfloat16", "math": "default"}}  # fmt: skip
# cuDNN compiles persist-dynamic for a batch by a call of its own.
ALGORITHMS = ("standard", "persist-static", "persist-static-small-h")
CALLS = ("forward", "data", "weights")
CUDNN = "cuDNN"
# Our kernels are chosen below this part of cuDNN's time.
MARGIN = 0.98
# The most that one run of `ucudnn tune` may take.
MOST_SECONDS = 300


def networks(kind, sizes, steps, algorithm):
    """One LSTM layer of each size (hidden, batch), for a JSON file of `ucudnn tune --rnn`."""
    layer = {"cell": "LSTM", **TYPES[kind], "steps": steps, "algorithm": algorithm, "training": True}
    return [{**layer, "hidden": hidden, "batch": batch} for hidden, batch in sizes]


class Layer:
    """The times of a layer: `lines` are the report's, one for each algorithm."""

    def __init__(self, size, lines):
        self.size = size
        totals = {line["algorithm"]: self.total(line["times"], False) for line in lines}
        self.algorithm, self.cudnn = min(totals.items(), key=lambda known: known[1])
        # The least of several measurements would favour our kernels.
        ours = lines[0]
        self.ours = self.total(ours["times"], True)
        is_chosen = self.ours < MARGIN * self.cudnn
        self.chosen = (ours["forward"], ours["backward"]) if is_chosen else (CUDNN, CUDNN)
        self.faster = self.cudnn / self.ours if is_chosen else 1.0

    @staticmethod
    def total(times, is_ours):
        """Milliseconds a time step of the three calls, each by the fastest of one side."""
        known = [[one["step_ms"] for one in times[call] if (one["what"] != CUDNN) == is_ours and one["step_ms"]] for call in CALLS]
        return sum(map(min, known)) if all(known) else float("inf")

    def row(self, kind):
        hidden, batch = self.size
        times = [f"{1e3 * self.cudnn:.2f}", self.algorithm, f"{1e3 * self.ours:.2f}", f"{self.faster:.2f}"]
        return [f"lstm/{kind}/H{hidden} B{batch}", *times, ", ".join(self.chosen)]


def layers(lines):
    """The layers of a report's lines, in the order of their first ones."""
    known = {}
    for line in map(json.loads, lines):
        if line["event"] == "rnn-training":
            words = dict(word.split("=") for word in line["spec"].split() if "=" in word)
            line["algorithm"] = words["algorithm"]
            known.setdefault((int(words["hidden"]), int(words["batch"])), []).append(line)
    return list(itertools.starmap(Layer, known.items()))


class Calls:
    """Times layers of these sizes (hidden, batch) in a session, which has the folder and the time."""

    def __init__(self, session, command, libraries, sizes, steps):
        self.session, self.command, self.libraries, self.sizes, self.steps = session, command, libraries, sizes, steps
        self.rows, self.out = [], session.out / "calls"
        self.out.mkdir(exist_ok=True)
        # Only compiled kernels stay from an earlier command: they are in folders.
        for old in filter(pathlib.Path.is_file, self.out.iterdir()):
            old.unlink()

    def tune(self, kind, algorithm, *words):
        """Runs `ucudnn tune`. Returns its exit status, its log, and its report."""
        name, database = f"{kind}-{algorithm}", self.out / f"{kind}.sqlite"
        file, log, report = (self.out / f"{name}.{ending}" for ending in ("networks.json", "log", "report.jsonl"))
        file.write_text(json.dumps(networks(kind, self.sizes, self.steps, algorithm)))
        report.unlink(missing_ok=True)
        command = [self.command, "tune", "--rnn", file, "--database", database, *words]
        variables = machine.environment(LD_LIBRARY_PATH=self.libraries, UCUDNN_REPORT=report)
        return self.session.run(command, MOST_SECONDS, variables, log, subprocess.STDOUT), log, report

    def timed(self, kind):
        """The layers of a type, and what went wrong: "" for nothing."""
        lines, wrong = [], []
        for algorithm in ALGORITHMS:
            if self.session.is_over:
                wrong.append(f"{algorithm}: no time left")
                break
            few = () if algorithm == ALGORITHMS[0] else ("--top-k", 1)
            status, log, report = self.tune(kind, algorithm, *few)
            # With 1 it ends where cuDNN refuses an algorithm for some layers.
            if status not in ((0,) if algorithm == ALGORITHMS[0] else (0, 1)):
                wrong.append(f"{algorithm}: {failure(status, log)}")
            lines += report.read_text().splitlines() if report.exists() else []
        found = [layer for layer in layers(lines) if math.isfinite(layer.cudnn) and math.isfinite(layer.ours)]
        if len(found) < len(self.sizes):
            wrong.append(f"{len(found)} of {len(self.sizes)} layers were timed")
        self.rows += [layer.row(kind) for layer in found]
        return found, "; ".join(wrong)

    def table(self):
        heading = ["", "cuDNN µs a step", "algorithm", "ours", "faster", "forward, backward"]
        return "\n".join(aligned([heading, *self.rows], left=(0, 2, 5))) + "\n"
