"""A session that makes figures: the tools, the environments, the time of each part, the tables."""

import contextlib
import functools
import hashlib
import json
import subprocess

from gpu import machine
from gpu.session import Session
from harness import children, cudnn, turns
from harness.arguments import is_like
from harness.budget import Budget
from harness.children import Child, Ended, failure
from harness.columns import aligned
from harness.cudnn import ROOT
from harness.results import Results

NETWORKS = ROOT / "examples/networks"
# Seconds at the end in which nothing new begins.
RESERVE = 15
# The most seconds until processes that begin side by side are ready.
FILLING = 110
# The answer of a process for which time was up.
CUT = {}


class Of(Results):
    """Results of one GPU and one library, by names of runs. A file's others do not count."""

    def __init__(self, path, of):
        super().__init__(path, lambda line: line["name"] if line.get("of") == of else None)
        self.lines.pop(None, None)
        self.of = of

    def add(self, line):
        super().add(line | {"of": self.of})


class Papers(Session):
    def __init__(self, options):
        super().__init__(options, RESERVE)
        self.host, self.library = options.host, options.library
        self.ucudnn = options.command or options.library.with_name("ucudnn")
        folder = machine.cudnn_folder(options)
        self.folder = cudnn.HOSTDNN if folder is None else folder
        self.libraries = cudnn.library_path(self.folder)
        (self.out / "tables.txt").write_text(f"{options.gpu}\n")
        self.say(f"{options.gpu}; libraries in {self.libraries or 'the folders of the loader'}")

    @functools.cached_property
    def python(self):
        """A Python with PyTorch; None if there is none, which is noted."""
        python, why = machine.python_with_torch(self.options)
        if not python:
            self.verdict("skipped", "what needs PyTorch", why)
        return python

    def results(self, name):
        """Those that OUT has of runs, by their names."""
        library = hashlib.sha256(self.library.read_bytes()).hexdigest()[:16]
        return Of(self.out / f"{name}.jsonl", [self.options.gpu, library])

    def sized(self, on_gpu, on_host):
        """A size of the paper's, or one with which hostdnn ends soon."""
        return on_host if self.host else on_gpu

    def wants(self, name):
        """Whether --only leaves a measurement in."""
        return is_like(name, self.options.only)

    def leave(self, share):
        """Leaves this share of the time that is left to later parts."""
        self.reserve = RESERVE + share * max(self.left - RESERVE, 0)

    @property
    def time(self):
        """Seconds of the part that runs."""
        return max(self.left - self.reserve, 1)

    def environment(self, **variables):
        """Of cuDNN's programs that are not PyTorch's."""
        return machine.environment(LD_LIBRARY_PATH=self.libraries, **variables)

    def leave_out(self, what, runs):
        """Notes the runs of a part that there is no time for, if there are any."""
        if runs:
            self.verdict("skipped", what, f"no time left for {len(runs)} runs: {'; '.join(runs)}")

    def succeeds(self, what, log, command, most, environment, out, errors=None):
        """As a session's, but what the part's time was up for is left out, and not wrong."""
        status = self.run(command, most, environment, out, errors)
        if status != 0:
            self.verdict("skipped" if status is None else "WRONG", what, failure(status, log))
        return status == 0

    def command(self, name, *words, most=300, **variables):
        """Runs a subcommand of `ucudnn`. Returns what it printed; None if it failed, which is noted."""
        out, log = (self.out / f"{name}.{ending}" for ending in ("out", "log"))
        command = [self.ucudnn, *words]
        is_right = self.succeeds(name, log, command, most, self.environment(**variables), out, log)
        return out.read_text() if is_right else None

    def picture(self, name, what, *words):
        """Draws OUT/NAME.svg by `ucudnn plot`."""
        self.command(f"plot-{name}", "plot", what, *words, "-o", self.out / f"{name}.svg", most=60)

    def plans(self, name, *words, may_fail=False):
        """The plans of `ucudnn plan`; [] if it failed, as within a limit in which nothing runs. That is noted, unless it
        may fail."""
        out, log = (self.out / f"{name}.{ending}" for ending in ("json", "log"))
        status = self.run([self.ucudnn, "plan", *words, "--json"], 60, self.environment(), out, log)
        if status != 0 and not may_fail:
            self.verdict("WRONG", name, failure(status, log))
        return json.loads(out.read_text())["plans"] if status == 0 else []

    def torch_line(self, name, script, *words, most=300, **variables):
        """The last line of JSON that a script of examples/pytorch prints; None if it failed, which is noted."""
        out, log = (self.out / f"{name}.{ending}" for ending in ("jsonl", "log"))
        command = machine.program(script, *words, "--device", self.options.device, python=self.python, folder=machine.PYTORCH)
        if not self.succeeds(name, log, command, most, machine.torch_environment(**variables), out, log):
            return None
        lines = out.read_text().splitlines()
        return json.loads(lines[-1]) if lines else {}

    def in_turns(self, add, runs, fillers, begins):
        """add()s what examples/pytorch/step.py measures, of `runs`: its words and variables by name. Returns the names of those
        that there was no time for.

        All begin side by side, and each says when it is ready (--turn). `fillers` are others that compile what these find,
        and end. Then comes begins(), and each run is measured alone, in its turn. What is not ready in time is ended, since it
        would take processors from what is measured, and begins again last: it finds what it has compiled. So does what failed
        beside others, as for memory.
        """
        if not runs:
            return []
        self.say(f"{len(runs)} processes begin{', and others compile' if fillers else ''}")
        with contextlib.ExitStack() as stack:
            waiting, filling = ({name: stack.enter_context(self.step_process(name, *its)) for name, its in all_.items()}
                                for all_ in (runs, fillers))  # fmt: skip
            budget = Budget(FILLING)
            left = lambda: min(budget.left, self.left - self.reserve)  # noqa: E731
            for name, process in filling.items():
                for _ in process.lines(left):
                    pass
                if process.has_failed:
                    self.verdict("WRONG", name, process.why)
                children.end(process.process)
            ready = {name: self.ready(process, left) for name, process in waiting.items()}
            for name, process in waiting.items():
                if not ready[name]:
                    children.end(process.process)
            begins()
            left_out = []
            for name in sorted(waiting, key=lambda name: not ready[name]):
                if self.is_over:
                    left_out.append(name)
                    continue
                if not ready[name]:
                    self.say(f"{name} begins again")
                    waiting[name] = stack.enter_context(self.step_process(name, *runs[name]))
                    ready[name] = self.heard(name, turns.answer, waiting[name], lambda: self.left - self.reserve)
                line = ready[name] and self.heard(name, turns.ask, waiting[name], "", lambda: self.left)
                if line:
                    self.say(f"{name}: {line['step_ms']:.2f} ms")
                    add(line | {"name": name})
                    # What it still writes is for the next one, and so is the memory that it holds.
                    for _ in waiting[name].lines(lambda: self.limit(20)) if "LD_PRELOAD" in runs[name][1] else ():
                        pass
                elif line is CUT:
                    left_out.append(name)
                children.end(waiting[name].process)
        return left_out

    def ready(self, process, left):
        """What a process says when it is ready; None if time was up, or if it failed."""
        try:
            return turns.answer(process, left)
        except (Ended, turns.Cut):
            return None

    def file(self, name, ending):
        """A file of a run."""
        return self.out / f"{name.replace(',', '').replace(' ', '-')}.{ending}"

    def step_process(self, name, words, variables):
        command = machine.program("step", *words, "--device", self.options.device, python=self.python, folder=machine.PYTORCH)
        return Child(command, machine.torch_environment(**variables), log=self.file(name, "log"), given=subprocess.PIPE)

    def heard(self, name, ask, process, *more):
        """What a process answers; CUT if time was up, and None if it failed, which is noted."""
        try:
            return ask(process, *more)
        except Ended as why:
            self.verdict("WRONG", name, why)
            return None
        except turns.Cut:
            return CUT

    def wrote(self, file, what):
        """Whether a program has left a file; if not, it is noted."""
        if not file.exists():
            self.verdict("WRONG", what, f"there is no {file.name}; {file.parent}.log says why")
        return file.exists()

    def table(self, title, legend, rows, left=(0,)):
        """Prints a table and keeps it: the title, what it shows, and the rows, the head first."""
        self.text(title, "\n".join([legend, *aligned(list(rows), left)]) + "\n")

    def text(self, title, text):
        text = f"\n{title}\n{text}"
        print(text, end="", flush=True)
        with open(self.out / "tables.txt", "a") as tables:
            tables.write(text)

    def hear(self, line):
        """Notes what a program said."""
        with open(self.out / "said.txt", "a") as said:
            said.write(f"{line}\n")
