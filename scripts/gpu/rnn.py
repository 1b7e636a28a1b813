"""Recurrent networks: repeated runs, times, PyTorch, sanitizers.

Runs are compared bit by bit, and timed against cuDNN's algorithms, the most telling first. PyTorch and
compute-sanitizer are used where they are. The same command again goes on with the tables, and repeats the checks. It
ends with 1 if anything is wrong. OUT then holds
  checks.txt   a line for each check: ok, WRONG, or skipped, and why
  bench/       cuDNN's algorithms and ours in turns: table.txt, table.csv, table.svg (examples/rnn_bench/table.py);
               the model's first choices against the best of 24: exhaustive.txt
  pytorch/     torch.nn.LSTM, GRU and RNN, plain and with us: rnn.txt, rnn.csv (examples/pytorch/rnn.py)
  repeat.jsonl, sanitizer-*.log   the repeated runs; memcheck, synccheck, racecheck
"""

import sys

from gpu import machine
from gpu.session import TOOLS, Session, sanitizing
from harness import children, cudnn, variables
from harness.children import failure, last_line
from harness.cudnn import ROOT
from harness.results import append, whole_lines

# Networks of every size that has a kernel of its own kind, by the hardware's levels: block, cluster, grid.
REPEATED = ("lstm/float/32/1", "lstm/float/64/1", "lstm/float/256/4", "lstm/half/256/8", "gru/float/512/1")
SANITIZED = ("lstm/float/32/2", "lstm/float/64/2", "lstm/float/256/1", "lstm/float/512/1", "lstm/half/1024/9")
# Networks that have floors (examples/rnn_bench/networks.py).
FIRST = [f"--only={cell}/{kind}/*" for cell in ("lstm", "gru") for kind in ("float", "half")]


def add_arguments(parser):
    machine.add_arguments(parser, "library", "bench", out="build/gpu-rnn", seconds=540)
    machine.add_arguments(parser, "runs", "python", "cudnn", "host")


def main(options):
    checks = Checks(options)
    checks.host() if options.host else checks.gpu()
    return checks.end("bench/table.txt", "bench/exhaustive.txt", "pytorch/rnn.txt")


class Checks(Session):
    def __init__(self, options):
        super().__init__(options, reserve=1)
        self.folder = machine.cudnn_folder(options)
        self.runs = options.runs or (20 if options.host else 10000)
        self.libraries = cudnn.library_path(self.folder)
        (self.out / "repeat.jsonl").write_text("")
        self.say(f"{options.gpu}; libraries in {self.libraries or 'the folders of the loader'}")

    def host(self):
        self.repeated("lstm/float/20/3", 3)
        self.repeated("gru/half/20/3", 3)
        self.table(60, "--network", "lstm/float/20/3", "--steps=4", "--rounds=2", "--samples=3", "--rnn=force")
        self.pytorch(60, "--only=layouts/lstm/float/*D1/packed", "--only=layouts/gru/float/*D2/batch")
        self.find_sanitizer()

    def gpu(self):
        for network in REPEATED:
            self.repeated(network, 20)
        # The networks that have floors, then PyTorch's, then the rest.
        self.table(self.seconds * 2 / 5, *FIRST)
        self.pytorch(self.seconds / 4)
        sanitizer = self.find_sanitizer()
        for network in SANITIZED if sanitizer else ():
            for tool in TOOLS:
                self.sanitized(sanitizer, tool, network)
        if not self.is_over:
            self.bench(self.seconds / 8, "exhaustive.log", "--exhaustive", 24)
        self.table(self.seconds)

    def ours(self, runs, steps, network, file, log, command=()):
        """Our kernels alone, by the model's first choice, under a command, which itself is to run without us. Returns
        the exit status, and the program's line; {} if there is none."""
        ours = variables.preloaded(self.options.library, self.out / "ours.jsonl", UCUDNN_RNN="force",
                                   UCUDNN_RNN_TOP_K=1, UCUDNN_DATABASE="off")  # fmt: skip
        command = [*command, *machine.setting(ours), self.options.bench, "--repeat", runs, "--steps", steps, network]
        status = self.run(command, 120, machine.environment(LD_LIBRARY_PATH=self.libraries), file, log)
        return status, next(reversed(whole_lines(file)), {})

    def repeated(self, network, steps):
        """The same bits each time, and right."""
        what, log = f"repeated runs, {network}", self.out / "repeat.log"
        if not self.begins(what):
            return None
        status, found = self.ours(self.runs, steps, network, self.out / "repeat.json", log)
        if status != 0 or not found:
            return self.verdict("WRONG", what, failure(status, log))
        append(self.out / "repeat.jsonl", [found])
        most, by, error = 1e-6 if "float" in network else 2e-3, chosen(found), found["error"]
        right = found["different"] == 0 and by not in ("", "cuDNN") and error is not None and error <= most
        seen = f"{found['different']} of {self.runs} runs differ, error {error} (at most {most}), by {by}"
        return self.judge(right, what, seen)

    def sanitized(self, sanitizer, tool, network):
        """Memory, barriers and shared memory, on a few steps."""
        what, log = f"{tool}, {network}", self.out / f"sanitizer-{tool}-{network.replace('/', '-')}.log"
        if not self.begins(what):
            return None
        errors, command = log.with_suffix(".log.err"), sanitizing(sanitizer, tool, log)
        status, found = self.ours(3, 4, network, self.out / "sanitizer.json", errors, command)
        by = chosen(found)
        if tool == "racecheck" and status == 99 and by.startswith("cluster"):
            # It does not see that a block waits for other blocks' stores into its shared memory. (With one more barrier
            # after that wait it finds nothing.)
            return self.verdict("skipped", what, f"it does not know how a cluster's blocks wait for each other: {by}")
        if status is None:
            return self.verdict("skipped", what, "took too long")
        if status == 0 and machine.is_clean(log.read_text()):
            return self.verdict("ok", what, by)
        return self.verdict("WRONG", what, f"{failure(status, log)} {last_line(errors.read_text())}")

    def bench(self, most, log, *more):
        """Goes on with examples/rnn_bench/table.py; returns its output."""
        command = [sys.executable, "-B", ROOT / "examples/rnn_bench/table.py", "--bench", self.options.bench,
                   "--shim", self.options.library, "--out", self.out / "bench", "--seconds", self.limit(most),
                   *(["--cudnn", self.folder] if self.folder else []), *more]  # fmt: skip
        # It keeps the time itself, and then writes the table.
        children.run(command, self.limit(most) + 60, None, self.out / log)
        return (self.out / log).read_text().splitlines()

    def table(self, most, *more):
        if not self.begins("rnn_bench", f"cuDNN's algorithms and ours, {self.limit(most):.0f} s"):
            return
        lines = self.bench(most, "bench.log", *more)
        for mode in ("stream",) if self.options.host else ("stream", "graph"):
            found = [line for line in lines if line.startswith(f"{mode}: ")]
            self.judge(found, "rnn_bench", found[0] if found else f"bench.log has no line about {mode}")
        if failed := [line for line in lines if line.startswith("failed: ")]:
            self.verdict("WRONG", "rnn_bench", f"{len(failed)} networks failed; {failed[0]}")

    def pytorch(self, most, *more):
        python, why = machine.python_with_torch(self.options)
        if self.is_over or not python:
            return self.verdict("skipped", "PyTorch", why or "no time left")
        self.say(f"PyTorch of {python}, {self.limit(most):.0f} s")
        log = self.out / "pytorch.log"
        command = machine.program("rnn", "--shim", self.options.library, "--out", self.out / "pytorch",
                                  "--seconds", self.limit(most), "--device", self.options.device, *more,
                                  python=python, folder=machine.PYTORCH)  # fmt: skip
        status = children.run(command, self.limit(most) + 60, machine.torch_environment(), log)
        told = last_line(log.read_text())
        verdict = "WRONG" if status != 0 else "skipped" if " 0 compared" in told else "ok"
        return self.verdict(verdict, "PyTorch", told)


def chosen(found):
    """The configuration on which ours ran."""
    return (found.get("decision") or {}).get("chosen", "")
