"""RNN inference by cuDNN's four algorithms and by libucudnn.so: runs the missing networks, then writes the table.

    python table.py --bench build/rnn_bench --shim target/release/libucudnn.so --out build/rnn-bench --seconds 300

OUT then holds results.jsonl (a line for each network; finished networks are not run again), table.txt, table.csv,
table.svg, report.jsonl (the library's timings and choices) and tuning.sqlite (its database). The most valuable networks
come first, so the command may be stopped at any time. Another library, or another GPU, needs another OUT.

With --exhaustive N it compares the performance model's first choice with the best of its N best configurations, all of
which it compiles and times: exhaustive.jsonl, exhaustive.txt.
"""

import argparse
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import exhaustive  # noqa: E402
import networks  # noqa: E402
import picture  # noqa: E402
import summary  # noqa: E402
from harness import cudnn  # noqa: E402
from harness.arguments import above_zero  # noqa: E402
from harness.children import end_with_parent, last_line  # noqa: E402
from harness.results import Results  # noqa: E402


def parse_arguments(words=None):
    def network(text):
        cells, types = "|".join(networks.CELLS), "|".join(networks.TYPES)
        if not re.fullmatch(rf"({cells})/({types})/[1-9][0-9]*/[1-9][0-9]*", text):
            raise argparse.ArgumentTypeError(f"{text!r} is not CELL/TYPE/HIDDEN/BATCH, as lstm/half/256/10")
        return text

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--bench", type=pathlib.Path, help="rnn_bench; without it nothing is run, and what is there is shown"
    )
    parser.add_argument("--shim", type=pathlib.Path, help="libucudnn.so; without it cuDNN's algorithms alone")
    parser.add_argument(
        "--cudnn", help="folder of the libcudnn.so.9 to use [the loader's or a Python package's; without a GPU hostdnn]"
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument("--seconds", type=above_zero, help="what all this may take [as long as it takes]")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="only networks like this: cell/type/hidden/batch, with * and ?, as 'lstm/half/*/1'; may be "
                        "given several times")  # fmt: skip
    parser.add_argument("--network", action="append", default=[], type=network, metavar="NETWORK",
                        help="this network, instead of the grid's; may be given several times")  # fmt: skip
    parser.add_argument("--rnn", default="auto", choices=["auto", "force"], help="UCUDNN_RNN [auto]")
    parser.add_argument("--exhaustive", type=int, metavar="N", help="time the model's N best configurations instead")
    parser.add_argument("--network-seconds", type=above_zero,
                        help="a network that takes longer has failed [120; with --exhaustive 600]")  # fmt: skip
    parser.add_argument("--again", action="store_true", help="run again what has failed")
    parser.add_argument("--list", action="store_true", help="say what would be run, in order, and run nothing")
    for name in ("rounds", "samples", "steps", "settle"):
        parser.add_argument(f"--{name}", help=f"as rnn_bench's --{name}")
    options = parser.parse_args(words)
    for name in ("bench", "shim"):
        path = getattr(options, name)
        if path and not path.is_file():
            parser.error(f"--{name} {path}: no such file")
    if options.network and options.only:
        parser.error("--only picks of the grid, and --network stands for it: take one of them")
    if options.exhaustive is not None and (options.exhaustive < 2 or options.bench and not options.shim):
        parser.error(f"--exhaustive {options.exhaustive}: takes a number above 1, and --shim")
    options.network_seconds = options.network_seconds or (600.0 if options.exhaustive else 120.0)
    everything = exhaustive.NETWORKS if options.exhaustive else networks.grid()
    options.networks = list(dict.fromkeys(options.network)) or networks.chosen(everything, options.only)
    if not options.networks:
        axes = {"cells": networks.CELLS, "types": networks.TYPES, "hidden": networks.SIZES, "batches": networks.BATCHES}
        there = "; ".join(f"{axis} {', '.join(map(str, values))}" for axis, values in axes.items())
        parser.error(f"--only {' '.join(options.only)}: no network is like this; there are {there}")
    return options


def say(words):
    print(f"rnn_bench: {words}", file=sys.stderr, flush=True)


def results_of(path):
    """A line for each network."""
    return Results(path, lambda line: line["network"])


class Runner:
    def __init__(self, options, results):
        self.options, self.results = options, results
        self.ends = time.monotonic() + options.seconds if options.seconds else None

    def left(self):
        return self.ends - time.monotonic() if self.ends else float("inf")

    def command(self, names):
        given = [(name, getattr(self.options, name)) for name in ("rounds", "samples", "steps", "settle")]
        words = [word for name, value in given if value for word in (f"--{name}", value)]
        if self.options.exhaustive:
            words += ["--repeat", "1", "--settle", str(self.options.network_seconds)]
        return [str(self.options.bench.resolve()), *words, *names]

    def environment(self):
        ours = {"LD_PRELOAD", "UCUDNN_POLICY", "UCUDNN_RNN", "UCUDNN_REPORT"}
        variables = {name: value for name, value in os.environ.items() if name not in ours}
        variables["LD_LIBRARY_PATH"] = cudnn.library_path(self.options.cudnn or cudnn.find())
        if self.options.shim:
            variables |= {"LD_PRELOAD": str(self.options.shim.resolve()), "UCUDNN_RNN": self.options.rnn,
                          "UCUDNN_REPORT": str(self.options.out / "report.jsonl")}  # fmt: skip
            variables.setdefault("UCUDNN_DATABASE", str(self.options.out / "tuning.sqlite"))
            variables.setdefault("UCUDNN_EXPLORE", "unbounded")  # settled times are compared
        if self.options.exhaustive:
            # Configurations in the database would not be timed again.
            variables |= {"UCUDNN_RNN": "force", "UCUDNN_RNN_TOP_K": str(self.options.exhaustive), "UCUDNN_DATABASE": "off"}
        return variables

    def run_all(self):
        names = self.results.missing(self.options.networks, self.options.again)
        budget = f"; at most {self.options.seconds:.0f} s" if self.ends else ""
        say(f"{len(self.options.networks) - len(names)} networks are there, {len(names)} to go{budget}")
        while names and self.left() > 0:
            names = self.run(names)
        if names:
            say(f"no time left; {len(names)} networks are to be measured: the same command goes on")

    def run(self, names):
        """Runs networks in a process, one after the other. Returns the networks that are left if time was up; else
        those behind the network at which the process failed."""
        log = self.options.out / "rnn_bench.log"
        with open(log, "a") as errors:
            child = subprocess.Popen(self.command(names), stdout=subprocess.PIPE, stderr=errors, text=True,
                                     preexec_fn=end_with_parent, env=self.environment())  # fmt: skip
            said = queue.Queue()
            reader = threading.Thread(target=lambda: [*map(said.put, child.stdout), said.put(None)], daemon=True)
            reader.start()
            try:
                while names:
                    why = self.hear(said, names)
                    if why is not None:
                        break
                    names = names[1:]
            finally:
                if names:
                    child.kill()
                child.wait()
                reader.join()
        if not names or self.left() <= 0:
            return names
        why = why or f"ended with {child.returncode}: {last_line(log.read_text(errors='replace'))}"
        say(f"{names[0]}: FAILED: {why}")
        self.results.add({"network": names[0], "failed": why})
        return names[1:]

    def hear(self, said, names):
        """Returns None when the first network is measured; else why it is not, "" if the process has ended."""
        limit = self.options.network_seconds
        try:
            text = said.get(timeout=max(min(limit, self.left()), 0))
        except queue.Empty:
            return f"took longer than {limit:.0f} s"
        if text is None:
            return ""
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            return ""  # it ended within the line
        if line["network"] != names[0]:
            return f"{line['network']} was measured, and not this"
        self.results.add(line)
        if self.options.exhaustive:
            say(f"{line['network']}: {len((line['decision'] or {}).get('times', []))} configurations")
            return None
        row = summary.Row(line)
        shown = [f"{mode} {faster[0]:.2f} times as fast" for mode in summary.MODES if (faster := row.faster(mode))]
        say(f"{row.network}: {', '.join(shown) or 'cuDNN alone'}; {row.chosen}")
        return None


def write(options, results):
    """Writes the table and its picture for all finished networks; with --exhaustive, the quality of first choices."""
    lines = [results.lines[name] for name in options.networks if name in results.lines]
    if options.exhaustive:
        text = exhaustive.text(lines)
        (options.out / "exhaustive.txt").write_text(text)
        return print(text, end="")
    rows = [summary.Row(line) for line in lines if "failed" not in line]
    text = summary.text(rows, [line for line in lines if "failed" in line])
    (options.out / "table.txt").write_text(text)
    summary.write_csv(options.out / "table.csv", rows)
    if rows:
        (options.out / "table.svg").write_text(picture.draw(rows))
    print(text, end="")
    say(f"written: {options.out}/table.txt, table.csv{', table.svg' if rows else ''}")


def main():
    options = parse_arguments()
    if options.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        print(*options.networks, sep="\n")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    results = results_of(options.out / ("exhaustive.jsonl" if options.exhaustive else "results.jsonl"))
    if options.bench:
        # As for Ctrl-C: the process that is measuring must end, too.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
        try:
            Runner(options, results).run_all()
        except KeyboardInterrupt:
            say("stopped; the same command goes on")
    write(options, results)


if __name__ == "__main__":
    sys.exit(main())
