"""What single calls of an RNN take from a process's first call on: plain, and under libucudnn.so with an empty database
(our kernels are compiled and timed meanwhile) and with what that run has left.

    python scripts/gpu_rnn_start.py --shim target/release/libucudnn.so --out build/rnn-start

A line a window: the median and the 99th percentile of the calls that began in it, in milliseconds, and their ratios to
plain's of all windows. The last line says what was decided. OUT holds each run's calls (begin, milliseconds) as CSV.
"""

import argparse
import csv
import os
import pathlib
import subprocess
import sys
import time

KINDS = ("plain", "empty", "known")
# Seconds.
WINDOW = 0.5


def child(options):
    """Runs an LSTM for so long, waiting for each call; prints when each began, and what it took."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    data_type = torch.half if options.half else torch.float
    model = torch.nn.LSTM(options.hidden, options.hidden).to(device, data_type).eval()
    x = torch.randn(options.steps, options.batch, options.hidden).to(device, data_type)
    rows = csv.writer(sys.stdout)
    calls = []
    with torch.inference_mode():
        # cuDNN's own first calls load its kernels, which is none of ours.
        for _ in range(5):
            model(x)
        wait()
        start = time.perf_counter()
        while (begin := time.perf_counter()) - start < options.seconds:
            model(x)
            wait()
            calls.append((begin - start, 1e3 * (time.perf_counter() - begin)))
    rows.writerows(calls)


def run(kind, options):
    """A run's calls, as (begin, milliseconds)."""
    out, environment = options.out, dict(os.environ)
    if kind != "plain":
        ours = {"LD_PRELOAD": options.shim.resolve(), "UCUDNN_DATABASE": out / "rnn.sqlite",
                "UCUDNN_REPORT": out / f"{kind}.jsonl"}  # fmt: skip
        environment |= {name: str(value) for name, value in ours.items()}
    shape = [f"--{name}={getattr(options, name)}" for name in ("hidden", "batch", "steps", "seconds")]
    command = [sys.executable, __file__, "--child", *shape, *(["--half"] if options.half else [])]
    text = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    (out / f"{kind}.csv").write_text(text)
    return [(float(begin), float(took)) for begin, took in csv.reader(text.splitlines())]


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", type=pathlib.Path, help="libucudnn.so")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/rnn-start"))
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    if options.shim is None or not options.shim.is_file():
        parser.error("--shim is to name libucudnn.so")
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    if (options.out / "rnn.sqlite").exists():
        parser.error(f"{options.out} holds a database already: --out is to name an empty folder")
    table({kind: run(kind, options) for kind in KINDS}, options.seconds)
    for kind in KINDS[1:]:
        report = options.out / f"{kind}.jsonl"
        print(f"\n{kind}: {report.read_text().strip() if report.exists() else 'nothing was decided'}")
    return None


if __name__ == "__main__":
    main()
