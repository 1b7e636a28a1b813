"""Single calls of an RNN from a process's first call on.

They run plain, with an empty database, in which case our kernels are compiled and timed meanwhile, and with the
database that this run has left. A line a window: the median and the 99th percentile of the calls that began in it, in
milliseconds, and their ratios to plain's of all windows. The last lines are the decisions. OUT, which must hold no
database yet, then has each run's calls (begin, milliseconds) as CSV.
"""

import csv
import subprocess

from gpu import machine
from harness.arguments import above_zero, count

KINDS = ("plain", "empty", "known")
# Seconds.
WINDOW = 0.5


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-rnn-start")
    machine.add_arguments(parser, "python", "host")
    for name, default in (("hidden", 256), ("batch", 10), ("steps", 100)):
        parser.add_argument(f"--{name}", type=count, default=default, help=f"[{default}]")
    parser.add_argument("--half", action="store_true", help="in half [in float]")
    parser.add_argument("--seconds", type=above_zero, default=12.0, help="of each run [12]")


def main(options):
    python = machine.required_torch(options)
    database = options.out / "rnn.sqlite"
    if database.exists():
        machine.stop(f"{options.out} holds a database already: --out is to name an empty folder")
    runs = {}
    for kind in KINDS:
        ours = machine.ours(options, options.out / f"{kind}.jsonl", UCUDNN_DATABASE=database)
        shape = [str(getattr(options, name)) for name in ("hidden", "batch", "steps")]
        words = [str(options.seconds), options.device, *shape, "half" if options.half else "float"]
        command = machine.program("rnn_calls", *words, python=python)
        environment = machine.torch_environment(**({} if kind == "plain" else ours))
        text = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        (options.out / f"{kind}.csv").write_text(text)
        runs[kind] = [(float(begin), float(took)) for begin, took in csv.reader(text.splitlines())]
    table(runs, options.seconds)
    for kind in KINDS[1:]:
        report = options.out / f"{kind}.jsonl"
        print(f"\n{kind}: {report.read_text().strip() if report.exists() else 'nothing was decided'}")


def part(times, quantile):
    return sorted(times)[min(int(quantile * len(times)), len(times) - 1)]


def table(runs, seconds):
    plain = [took for _, took in runs["plain"]]
    base = [part(plain, quantile) for quantile in (0.5, 0.99)]
    print(f"plain, {len(plain)} calls: median {base[0]:.3f} ms, 99th percentile {base[1]:.3f} ms")
    for kind in KINDS[1:]:
        print(f"\n{kind:>7}  calls  median     99%  ratio  ratio of 99%")
        for window in range(int(seconds / WINDOW)):
            times = [took for begin, took in runs[kind] if window <= begin / WINDOW < window + 1]
            if times:
                median, slow = part(times, 0.5), part(times, 0.99)
                ratios = f"{median / base[0]:6.2f} {slow / base[1]:13.2f}"
                print(f"{window * WINDOW:6.1f}s {len(times):6d} {median:7.3f} {slow:7.3f} {ratios}")
