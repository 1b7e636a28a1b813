"""RNN inference by cuDNN's four algorithms and by libucudnn.so: runs the missing networks, then writes the table.

    python table.py --bench build/rnn_bench --shim target/release/libucudnn.so --out build/rnn-bench --seconds 300

OUT then holds results.jsonl (a line for each network; finished networks are not run again), table.txt, table.csv,
table.svg, report.jsonl (the library's timings and choices) and tuning.sqlite (its database). The most valuable networks
come first, so the command may be stopped at any time. Another library, or another GPU, needs another OUT.

With --exhaustive N it compares the performance model's first choice with the best of its N best configurations, all of
which it compiles and times: exhaustive.jsonl, exhaustive.txt.
"""

import argparse
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import exhaustive  # noqa: E402
import networks  # noqa: E402
import picture  # noqa: E402
import summary  # noqa: E402
from harness import arguments, cudnn, variables  # noqa: E402
from harness.children import Child  # noqa: E402
from harness.continued import Continued, print_list  # noqa: E402
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
    parser.add_argument(
        "--cudnn", help="folder of the libcudnn.so.9 to use [the loader's or a Python package's; without a GPU hostdnn]"
    )
    arguments.add(parser, "out", "seconds", "again", "list",
                  shim={"help": "libucudnn.so; without it cuDNN's algorithms alone"},
                  only={"help": "only networks like this: cell/type/hidden/batch, with * and ?, as 'lstm/half/*/1'; "
                        "may be given several times"})  # fmt: skip
    parser.add_argument("--network", action="append", default=[], type=network, metavar="NETWORK",
                        help="this network, instead of the grid's; may be given several times")  # fmt: skip
    parser.add_argument("--rnn", default="auto", choices=["auto", "force"], help="UCUDNN_RNN [auto]")
    parser.add_argument("--exhaustive", type=int, metavar="N", help="time the model's N best configurations instead")
    parser.add_argument("--network-seconds", type=arguments.above_zero,
                        help="a network that takes longer has failed [120; with --exhaustive 600]")  # fmt: skip
    for name in ("rounds", "samples", "steps", "settle"):
        parser.add_argument(f"--{name}", help=f"as rnn_bench's --{name}")
    options = parser.parse_args(words)
    arguments.check_files(parser, options, "bench", "shim")
    if options.network and options.only:
        parser.error("--only picks of the grid, and --network stands for it: take one of them")
    if options.exhaustive is not None and (options.exhaustive < 2 or options.bench and not options.shim):
        parser.error(f"--exhaustive {options.exhaustive}: takes a number above 1, and --shim")
    options.network_seconds = options.network_seconds or (600.0 if options.exhaustive else 120.0)
    everything = exhaustive.NETWORKS if options.exhaustive else networks.grid()
    liked = [name for name in everything if arguments.is_like(name, options.only)]
    options.networks = list(dict.fromkeys(options.network)) or liked
    if not options.networks:
        axes = {"cells": networks.CELLS, "types": networks.TYPES, "hidden": networks.SIZES, "batches": networks.BATCHES}
        there = "; ".join(f"{axis} {', '.join(map(str, values))}" for axis, values in axes.items())
        parser.error(f"--only {' '.join(options.only)}: no network is like this; there are {there}")
    return options


def results_of(path):
    """A line for each network."""
    return Results(path, lambda line: line["network"])


class Runner(Continued):
    name, what = "rnn_bench", "networks"

    def command(self, names):
        given = [(name, getattr(self.options, name)) for name in ("rounds", "samples", "steps", "settle")]
        words = [word for name, value in given if value for word in (f"--{name}", value)]
        if self.options.exhaustive:
            words += ["--repeat", "1", "--settle", str(self.options.network_seconds)]
        return [self.options.bench.resolve(), *words, *names]

    def environment(self):
        found = variables.plain("UCUDNN_POLICY", "UCUDNN_RNN")
        found["LD_LIBRARY_PATH"] = cudnn.library_path(self.options.cudnn or cudnn.find())
        if self.options.shim:
            found |= variables.preloaded(self.options.shim, self.options.out / "report.jsonl",
                                         UCUDNN_RNN=self.options.rnn,
                                         **variables.compared(self.options.out, "tuning"))  # fmt: skip
        if self.options.exhaustive:
            # Configurations in the database would not be timed again.
            found |= {"UCUDNN_RNN": "force", "UCUDNN_RNN_TOP_K": self.options.exhaustive, "UCUDNN_DATABASE": "off"}
        return found

    def run_all(self):
        names = self.results.missing(self.options.networks, self.options.again)
        self.say_begin(len(self.options.networks) - len(names), len(names))
        while names and self.left() > 0:
            child = Child(self.command(names), self.environment(), self.options.out / "rnn_bench.log", "a")
            names = self.one_by_one(child, names, self.add, self.fail, self.options.network_seconds)
        self.say_end(len(names))

    def fail(self, network, why):
        self.say(f"{network}: FAILED: {why}")
        self.results.add({"network": network, "failed": why})

    def add(self, network, line):
        """Takes a network's line. Returns why it is not the network's."""
        if line["network"] != network:
            return f"{line['network']} was measured, and not this"
        self.results.add(line)
        if self.options.exhaustive:
            self.say(f"{network}: {len((line['decision'] or {}).get('times', []))} configurations")
            return None
        row = summary.Row(line)
        shown = [f"{mode} {faster[0]:.2f} times as fast" for mode in summary.MODES if (faster := row.faster(mode))]
        self.say(f"{network}: {', '.join(shown) or 'cuDNN alone'}; {row.chosen}")
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
    print(f"rnn_bench: written: {options.out}/table.txt, table.csv{', table.svg' if rows else ''}", file=sys.stderr)


def main():
    options = parse_arguments()
    if options.list:
        return print_list(options.networks)
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    results = results_of(options.out / ("exhaustive.jsonl" if options.exhaustive else "results.jsonl"))
    if options.bench:
        Runner(options, results).run_until_stopped()
    write(options, results)


if __name__ == "__main__":
    sys.exit(main())
