"""Canonical GRU by the direct call, by how its blocks exchange.

The library itself times a network when ucudnn.h's call makes it. A line a network: microseconds a time step of the
fastest of each kind among the model's best, and how much slower the model's first choice is than the fastest of all.
`block` does not exchange, `grid` exchanges twice a step, `grid-single` once; `step` is one product a step. The two ways
of exchange differ in two constants of the model, l2_latency and packet (crates/recurrent/src/model.rs).
"""

import subprocess
import sys

from gpu import machine
from harness.arguments import count
from harness.cudnn import HOSTDNN

KINDS = ("block", "grid", "grid-single", "step")
TYPES = {"float": 0, "half": 2, "bfloat16": 9}
# The library's log line about a network that was made.
LOGGED = "microseconds a step: "


def add_arguments(parser):
    machine.add_arguments(parser, "library", "host")
    parser.add_argument("--cudnn", help="a libcudnn.so.9 elsewhere than where the loader looks [with --host hostdnn]")
    parser.add_argument("--type", choices=TYPES, default="float")
    parser.add_argument("--hidden", type=count, nargs="+", default=[64, 128, 160, 192, 256, 512, 1024])
    parser.add_argument("--batch", type=count, nargs="+", default=[1, 10])
    parser.add_argument("--steps", type=count, default=100)
    parser.add_argument("--candidates", type=count, default=24, help="how many of the model's best are timed [24]")


def main(options):
    print(f"canonical GRU, {options.type}, {options.steps} steps at most\n    H  batch" +
          "".join(f"{kind:>13}" for kind in KINDS) + "  first/best  best")  # fmt: skip
    for hidden in options.hidden:
        for batch in options.batch:
            times = timed(options, hidden, batch)
            of = {kind: [time for name, time in times if name.split(" ")[0] == kind] for kind in KINDS}
            row = "".join(f"{min(of[kind]):13.3f}" if of[kind] else f"{'-':>13}" for kind in KINDS)
            name, best = min(times, key=lambda pair: pair[1])
            print(f"{hidden:5}  {batch:5}{row}  {times[0][1] / best:10.3f}  {name}", flush=True)


def timed(options, hidden, batch):
    """Configurations, the model's first choice first, each with its microseconds a step."""
    variables = {"UCUDNN_LOG": "info", "UCUDNN_DATABASE": "off", "UCUDNN_RNN_TOP_K": options.candidates}
    if cudnn := options.cudnn or (HOSTDNN / "libcudnn.so.9" if options.host else None):
        variables["UCUDNN_CUDNN_LIBRARY"] = cudnn
    network = [str(word) for word in (options.library, TYPES[options.type], hidden, batch, options.steps)]
    ended = subprocess.run(machine.program("canonical_gru", *network), env=machine.environment(**variables),
                           stderr=subprocess.PIPE, text=True)  # fmt: skip
    logged = [line.split(LOGGED, 1)[1] for line in ended.stderr.splitlines() if LOGGED in line]
    if ended.returncode or not logged:
        sys.exit(f"H {hidden}, batch {batch}: {ended.stderr.strip() or 'nothing was timed'}")
    pairs = (one.rsplit(": ", 1) for one in logged[0].split(", "))
    return [(name, float(time)) for name, time in pairs if time != "none"]
