"""The cost of libucudnn.so for a program of which no two convolutions are alike: the library can win nothing there.

Runs build/passing_shapes plain and preloaded in turns, for each way of asking for algorithms. Prints the ratio of
times, by the clock and by all processors (which a busy machine disturbs less).
Limit: 5%.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

import demo  # first: it puts harness on the path

from harness import cudnn, variables
from harness.columns import aligned, spread
from harness.rounds import in_turns

LIMIT = 1.05
KEYS = ("total_ms", "processors_ms")
STYLES = ["hardcoded", "get", "find", "findex"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=pathlib.Path, required=True, help="folder of libucudnn.so")
    parser.add_argument("--program", type=pathlib.Path, default=demo.ROOT / "build" / "passing_shapes")
    parser.add_argument("--cudnn", help="folder of the libcudnn.so.9 to use [as the demo finds it]")
    parser.add_argument("--count", default=1000, type=int, help="shapes, 1 to 1000")
    parser.add_argument("--rounds", default=5, type=int, help="runs of each kind")
    parser.add_argument("--styles", nargs="+", default=STYLES, choices=STYLES)
    parser.add_argument("--output", type=pathlib.Path, default=demo.ROOT / "build" / "passing_shapes.json")
    return parser.parse_args()


def run(options, style, environment):
    command = [str(options.program.resolve()), style, str(options.count)]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main():
    options = parse_arguments()
    plain = variables.plain() | {"LD_LIBRARY_PATH": cudnn.library_path(options.cudnn or cudnn.find())}
    preloaded = plain | variables.preloaded(options.target / "libucudnn.so", UCUDNN_DATABASE="off")
    results = {}
    for style in options.styles:

        def one(kind, number, style=style):
            demo.say(f"passing_shapes: {style}, {kind}, round {number + 1} of {options.rounds}")
            return run(options, style, preloaded if kind == "with" else plain)

        results[style] = in_turns(("plain", "with"), options.rounds, one)
    print(f"\n{options.count} convolutions, none like another; {options.rounds} runs of each kind in turns; limit: "
          f"{LIMIT:.2f}\n")  # fmt: skip
    lines = [["asks by", "plain ms", "with us ms", "ratio", "processors: plain", "with us", "ratio", "first asking ms",
              ""]]  # fmt: skip
    for style, runs in results.items():
        ratios = [statistics.median(w[key] / p[key] for p, w in zip(runs["plain"], runs["with"])) for key in KEYS]
        first = statistics.median(w["first_asking_ms"] for w in runs["with"])
        cells = []
        for key, ratio in zip(KEYS, ratios, strict=True):
            times = [[run[key] for run in runs[kind]] for kind in ("plain", "with")]
            cells += [*(spread(statistics.median(its), min(its), max(its), ".0f") for its in times), f"{ratio:.3f}"]
        lines.append([style, *cells, f"{first:.1f}", "OVER" if min(ratios) > LIMIT else ""])
    print(*aligned(lines, left=(0, 8)), sep="\n")
    options.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
