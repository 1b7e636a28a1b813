"""Runs of convnet in turns, and their times as plans that `ucudnn plot layers` draws."""

import contextlib
import json
import statistics
import threading

import demo
from harness import rounds, variables
from harness.children import Ended
from turns import Runner

DIRECTIONS = ("F", "BD", "BF")


class Runs:
    """Kinds of run on a network. Each is a process, which is set up once; then iterations take turns."""

    def __init__(self, session, name, network, batch):
        self.session, self.name = session, name
        self.words = ["--batch", batch, "--workspace", "shared", "--math", session.options.math]
        self.network = network
        self.rounds, self.iterations = session.sized((5, 4), (2, 1))

    def file(self, kind, ending):
        return self.session.out / f"{self.name}-{kind.replace(' ', '-')}.{ending}"

    def ours(self, kind, database, **more):
        """The variables of a kind that runs with us. It looks for its times at once, in the database first."""
        file = self.file(kind, "jsonl")
        file.unlink(missing_ok=True)
        return variables.preloaded(self.session.library, file, UCUDNN_DATABASE=database, UCUDNN_EXPLORE="unbounded", **more)

    def begin(self, runners, kind, words, more):
        command = [self.session.options.convnet, *self.words, *words, "--json", self.file(kind, "json"),
                   "--iterations", self.rounds * self.iterations, self.network]  # fmt: skip
        runner = Runner(command, self.session.environment(**more), self.file(kind, "json"), self.session.hear)
        runners.enter_context(runner)
        killer = threading.Timer(self.session.limit(300), runner.process.kill)
        killer.start()
        runners.callback(killer.cancel)
        for _ in runner.until("ready"):
            pass
        runner.iterate()  # the warm-up
        return runner

    def in_turns(self, kinds):
        """The report of each kind, by its name. `kinds` gives each its words for convnet and its variables. One that cannot
        be set up is left out, and noted."""
        with contextlib.ExitStack() as runners:
            running = {}
            for kind, (words, more) in kinds.items():
                what = f"{self.name}, {kind}"
                if not self.session.begins(what, what):
                    continue
                try:
                    running[kind] = self.begin(runners, kind, words, more)
                except Ended as why:
                    self.session.verdict("WRONG", what, why)
            try:
                for number in range(self.rounds):
                    for kind in rounds.in_turn(tuple(running), number):
                        for _ in range(self.iterations):
                            running[kind].iterate()
                return {kind: runner.finish() for kind, runner in running.items()}
            except Ended as why:
                self.session.verdict("WRONG", self.name, why)
                return {}

    def totals(self, report):
        """Milliseconds of an iteration: the median of the rounds, the least and the most."""
        found = rounds.totals(report, self.rounds)
        return statistics.median(found), min(found), max(found)

    def picture(self, name, title, reports, directions=DIRECTIONS):
        """Draws the times of each layer, by kind."""
        files = []
        for kind, report in reports.items():
            plan = self.file(kind, "plan.json")
            plan.write_text(json.dumps(measured(report, demo.read_plans(self.file(kind, "jsonl")), directions)))
            files.append(f"{plan}={kind}")
        if files:
            self.session.picture(name, "layers", *files, "--title", title)


def by_direction(report, direction):
    return sum(kernel["median_ms"] for kernel in report["kernels"] if kernel["direction"] == direction)


def measured(report, decisions, directions=DIRECTIONS):
    """A run's times as `ucudnn plan` prints plans. A kernel without a decision ran by cuDNN's own algorithm."""
    layers = []
    for kernel in report["kernels"]:
        if kernel["direction"] not in directions:
            continue
        batch, *image = kernel["x"]
        plain = f"1×{batch}[{kernel['algorithm_name']}]"
        division = (demo.plan_of(kernel, decisions) or {}).get("division", plain)
        shape = "x".join(map(str, image))
        layers.append({"layer": kernel["layer"], "direction": kernel["direction"],
                       "kernel": f"{kernel['direction']} {shape}", "spec": f"{kernel['layer']} {kernel['direction']}",
                       "division": division, "workspace": kernel["workspace"], "time_ms": kernel["median_ms"]})  # fmt: skip
    return {"plans": [{"policy": "wr", "limit": report["limit"], "layers": layers}]}
