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

LIMIT = 1.05
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


def spread(runs, key):
    values = [r[key] for r in runs]
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def main():
    options = parse_arguments()
    plain = variables.plain() | {"LD_LIBRARY_PATH": cudnn.library_path(options.cudnn or cudnn.find())}
    preloaded = plain | variables.preloaded(options.target / "libucudnn.so", UCUDNN_DATABASE="off")
    results = {style: {"plain": [], "with": []} for style in options.styles}
    for number in range(options.rounds):
        for style in options.styles:
            demo.say(f"passing_shapes: {style}, round {number + 1} of {options.rounds}")
            results[style]["plain"].append(run(options, style, plain))
            results[style]["with"].append(run(options, style, preloaded))
    print(f"\n{options.count} convolutions, none like another; {options.rounds} runs of each kind in turns; limit: "
          f"{LIMIT:.2f}\n")  # fmt: skip
    print(f"{'asks by':10} {'plain ms':>24} {'with us ms':>24} {'ratio':>7}  {'processors: plain':>24} "
          f"{'with us':>24} {'ratio':>7} {'first asking ms':>16}")  # fmt: skip
    for style, runs in results.items():
        ratios = [statistics.median(w[key] / p[key] for p, w in zip(runs["plain"], runs["with"]))
                  for key in ("total_ms", "processors_ms")]  # fmt: skip
        first = statistics.median(w["first_asking_ms"] for w in runs["with"])
        over = "  OVER" if min(ratios) > LIMIT else ""
        print(f"{style:10} {spread(runs['plain'], 'total_ms'):>24} {spread(runs['with'], 'total_ms'):>24} "
              f"{ratios[0]:>7.3f}  {spread(runs['plain'], 'processors_ms'):>24} "
              f"{spread(runs['with'], 'processors_ms'):>24} {ratios[1]:>7.3f} {first:>16.1f}{over}")  # fmt: skip
    options.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
