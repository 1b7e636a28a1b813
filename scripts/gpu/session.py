"""Several checks in a limited time, with a line for each."""

import subprocess
import sys

from gpu import machine
from harness import children
from harness.budget import Budget
from harness.children import failure
from harness.results import whole_lines

# compute-sanitizer's, of memory, of barriers and of shared memory.
TOOLS = ("memcheck", "synccheck", "racecheck")
# On a CPU, PyTorch's own kernels are replaced only where that is forced.
FORCED = {"UCUDNN_NORM": "force", "UCUDNN_TORCH": "force"}


class Session(Budget):
    """The folder, the time and the checks of a subcommand. Nothing new begins in the last `reserve` seconds."""

    def __init__(self, options, reserve):
        super().__init__(options.seconds)
        self.options, self.out, self.reserve = options, options.out, reserve
        self.noted = self.out / "checks.txt"
        self.noted.write_text("")

    @property
    def is_over(self):
        return self.left <= self.reserve

    def begins(self, what, words=None):
        """Says that a check begins, and returns True, if there is time for it; else notes that it is skipped."""
        if self.is_over:
            self.verdict("skipped", what, "no time left")
            return False
        if words:
            self.say(words)
        return True

    def say(self, words):
        print(f"gpu: {words} (at {self.took:.0f} s)", file=sys.stderr, flush=True)

    def verdict(self, verdict, what, seen):
        """Notes a check: `ok`, `WRONG` or `skipped`, what was checked, what was seen."""
        line = f"{verdict:8} {what}: {seen}"
        print(line, file=sys.stderr, flush=True)
        with open(self.noted, "a") as checks:
            checks.write(line + "\n")

    def judge(self, is_right, what, seen):
        self.verdict("ok" if is_right else "WRONG", what, seen)

    def end(self, *files):
        """Prints those of these files that are there, and the checks. Returns the exit status."""
        for file in (*files, self.noted.name):
            if (self.out / file).exists():
                print((self.out / file).read_text())
        return self.finish()

    def finish(self):
        self.say(f"everything is in {self.out}")
        return 1 if any(line.startswith("WRONG") for line in self.noted.read_text().splitlines()) else 0

    def run(self, command, most, environment, out, errors=None):
        """As `children.run`, for at most `most` seconds and what is left."""
        return children.run(command, self.limit(most), environment, out, errors)

    def succeeds(self, what, log, command, most, environment, out, errors=None):
        """Runs a command, and notes a failure, whose last words are in `log`. Returns whether there was none. A command
        that the session's end has cut is skipped; one that takes longer than `most` is wrong."""
        is_cut = self.limit(most) < most
        status = self.run(command, most, environment, out, errors)
        if status != 0:
            self.verdict("skipped" if status is None and is_cut else "WRONG", what, failure(status, log))
        return status == 0

    def find_sanitizer(self):
        """compute-sanitizer, where our kernels run; None if there is none, which is noted."""
        found = None if self.options.host else machine.sanitizer()
        if not found:
            self.verdict("skipped", "compute-sanitizer", "there is no GPU" if self.options.host else "there is none")
        return found


class TorchSession(Session):
    """Checks by programs of PyTorch's."""

    def __init__(self, options):
        super().__init__(options, reserve=1)
        self.python = machine.required_torch(options)
        self.say(options.gpu)

    def program_lines(self, program, part, kind, most, *words, command=(), **variables):
        """Runs a part of a program, plain or with us. Returns its lines; [] if it failed, which is noted."""
        name = f"{part}-{kind}"
        out, log = (self.out / f"{name}.{ending}" for ending in ("jsonl", "log"))
        if not self.begins(name):
            return []
        if kind != "plain":
            variables |= self.with_us(name, "info")
        command = [*command, *machine.setting(variables),
                   *machine.program(program, part, "--device", self.options.device, *words, python=self.python)]  # fmt: skip
        is_right = self.succeeds(name, log, command, most, machine.torch_environment(), out, log)
        return whole_lines(out) if is_right else []

    def with_us(self, name, log):
        """The variables of a run with us, without a database."""
        host = {"UCUDNN_CUDNN_LIBRARY": self.options.library.with_name("libhostdnn.so")} if self.options.host else {}
        report = self.out / f"{name}.report.jsonl"
        return host | machine.ours(self.options, report, UCUDNN_DATABASE="off", UCUDNN_LOG=log)

    def looks(self, part, program, what, most, *words):
        """Runs a program that comes to PyTorch's operators in many ways, with our kernels forced. Notes how many results are
        right, and how many passes of this name ran on our kernels."""
        if not self.begins(part, part):
            return
        log = self.out / f"{part}.log"
        variables = self.with_us(part, "warn,ucudnn_torch=debug,ucudnn_norm=debug") | FORCED
        command = [*machine.setting(variables),
                   *machine.program(program, "--device", self.options.device, *words, python=self.python)]  # fmt: skip
        status = self.run(command, most, machine.torch_environment(), log, subprocess.STDOUT)
        lines = log.read_text(errors="replace").splitlines()
        ours = sum(what in line and line.endswith("on our kernels") for line in lines)
        right, wrong = (sum(line.startswith(f"{verdict} ") for line in lines) for verdict in ("ok", "WRONG"))
        told = f"{right} right, {wrong} wrong, {ours} passes on our kernels"
        self.judge(status == 0 and right, part, told if status == 0 else f"{told}; {failure(status, log)}")


def sanitizing(sanitizer, tool, log, *more):
    """What comes before a command for a tool of compute-sanitizer to watch it. The tool's words go to `log`."""
    log.write_text("")
    return [sanitizer, "--tool", tool, "--error-exitcode", 99, "--log-file", log, *more]
