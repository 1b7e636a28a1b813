"""The cost of exploring in whole programs, from an empty database: the promise, several RNNs, memory.

Three rounds of plain and ours in turns, and their medians:
- training in PyTorch: the time of the first 10 and the first 100 steps. Exploring may cost 5% of plain's, and 0.5 s;
- the device memory that the same runs use at the most: at most 16 MiB more than plain;
- a legacy client (convnet) with nothing set: the same for whole processes of 10 and 100 iterations;
- six recurrent networks in one program: each network's ratio to plain over windows of a second, at least 0.97 after the
  first, and the engine of each after 10 seconds.
"""

import csv
import statistics
import subprocess
import time

from gpu import machine
from harness import cudnn
from harness.arguments import count
from harness.cudnn import ROOT
from harness.results import events
from harness.rounds import in_turns
from harness.variables import fresh

FIRST = (10, 100)
SHARE, FREE = 0.05, 500.0  # of the promise; milliseconds
MOST_BYTES = 16 << 20
LEAST_RATIO = 0.97
KINDS = ("plain", "with")


def add_arguments(parser):
    machine.add_arguments(parser, "library", "convnet", out="build/gpu-exploring")
    machine.add_arguments(parser, "python", "cudnn", "host")
    parser.add_argument("--rounds", type=count, default=3, help="[3]")
    parser.add_argument("--network", default="resnet50", help="of the training [resnet50]")
    parser.add_argument("--precision", default="half", choices=["half", "float"])


def ours(options, kind, name, **variables):
    """The variables of a run: with us an empty database, and a report."""
    database = fresh(options.out / f"{name}.sqlite")
    if kind == "plain":
        return variables
    return machine.ours(options, options.out / f"{name}.jsonl", UCUDNN_DATABASE=database, **variables)


def promise(what, first, found):
    """Compares the milliseconds of runs' first steps. Returns whether the promise holds."""
    plain, with_ = (statistics.median(found[kind]) for kind in KINDS)
    allowed = (1 + SHARE) * plain + FREE
    holds = with_ <= allowed
    print(f"{what}, first {first:3} steps: plain {plain:9.1f} ms, with us {with_:9.1f} ({with_ / plain:.2f}), allowed"
          f" {allowed:9.1f}: {'ok' if holds else 'WRONG'}")  # fmt: skip
    return holds


def training(options, python):
    def run(kind, number):
        name = f"training-{kind}-{number}"
        steps = 4 if options.host else FIRST[-1]
        words = [options.network, str(steps), options.precision, options.device]
        command = machine.program("first_steps", *words, python=python, folder=machine.PYTORCH)
        environment = machine.torch_environment(**ours(options, kind, name))
        said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        return [float(line) for line in said.splitlines()]

    found = in_turns(KINDS, options.rounds, run)
    memory = {kind: statistics.median(run.pop() for run in found[kind]) for kind in KINDS}
    sums = [(first, {kind: [sum(run[:first]) for run in found[kind]] for kind in KINDS}) for first in FIRST]
    holds = all([promise(options.network, first, of) for first, of in sums])
    more = memory["with"] - memory["plain"]
    fits = more <= MOST_BYTES
    print(f"{options.network}, most device memory: plain {memory['plain'] / 2**20:.0f} MiB, with us {more / 2**20:+.0f} MiB:"
          f" {'ok' if fits else 'WRONG'}")  # fmt: skip
    return holds and fits


def legacy(options):
    network = ROOT / "examples/networks/alexnet.csv"
    libraries = {"LD_LIBRARY_PATH": cudnn.library_path(options.cudnn or cudnn.find())}

    def whole(steps):
        def run(kind, number):
            command = [options.convnet, network, "--limit", "64MiB", "--warmup", "0", "--iterations", str(steps)]
            command += ["--batch", "2" if options.host else "128"]
            environment = machine.environment(**ours(options, kind, f"legacy-{steps}-{kind}-{number}", **libraries))
            begin = time.perf_counter()
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
            return 1e3 * (time.perf_counter() - begin)

        return run

    counts = (1, 4) if options.host else FIRST
    return all([promise("legacy client", steps, in_turns(KINDS, options.rounds, whole(steps))) for steps in counts])


def recurrent(options, python):
    seconds = 2 if options.host else 20

    def run(kind, number):
        command = machine.program("rnn_calls", str(seconds), options.device, python=python)
        environment = machine.torch_environment(**ours(options, kind, f"rnns-{kind}-{number}"))
        said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        return [(name, float(begin), float(took)) for name, begin, took in csv.reader(said.splitlines())]

    found = in_turns(KINDS, options.rounds, run)
    holds = True
    for name in dict.fromkeys(name for name, _, _ in found["plain"][0]):
        calls = {kind: [(at, took) for run in found[kind] for who, at, took in run if who == name] for kind in KINDS}
        plain = statistics.median(took for _, took in calls["plain"])
        windows = [[took for at, took in calls["with"] if window <= at < window + 1] for window in range(1, seconds)]
        # A second without a call is one in which a call took longer than that.
        ratios = [plain / statistics.median(times) if times else 0.0 for times in windows]
        fine = min(ratios) >= LEAST_RATIO
        holds &= fine
        print(f"{name:22}: plain {plain:7.3f} ms; times as fast: {min(ratios):5.2f} in the worst second,"
              f" {ratios[-1]:5.2f} in the last: {'ok' if fine else 'WRONG'}")  # fmt: skip
    for line in events(options.out / "rnns-with-0.jsonl", "rnn"):
        print(f"  {line.get('rnn')}: {line.get('chosen')}: {line.get('why')}")
    return holds


def main(options):
    python = machine.required_torch(options)
    held = [legacy(options), training(options, python), recurrent(options, python)]
    return 0 if all(held) else 1
