"""Trains a network's convolutions with and without libucudnn.so, and shows both in a table and on a page.

The same program runs twice, unchanged, at the same workspace limit: plain, and with the library preloaded. The two take
turns, round by round, so that another program on the machine slows both. They run on the GPU if the machine has an
NVIDIA GPU and cuDNN 9, else on hostdnn. `ucudnn demo --show` then makes the table and the page of what was measured. The
script needs Python's standard library only.
"""

import argparse
import array
import contextlib
import json
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "examples"))
from harness import cudnn, rounds, variables  # noqa: E402
from harness.arguments import above_zero, count  # noqa: E402
from harness.children import Ended  # noqa: E402
from harness.results import whole_lines  # noqa: E402
from progress import Progress  # noqa: E402
from turns import Runner  # noqa: E402

# UCUDNN_TUNE_SECONDS on a quiet machine, unless the caller sets it: AlexNet's 15 kernels are tuned within 45 s. A
# search begins with the largest micro-batch of each algorithm, so that a third of its time finds nearly the best plan.
TUNE_SECONDS = 3.0
# The defaults of --quick on hostdnn: done within 30 s on a laptop. conv2's FFT fits the limit with 32 images, not with 48.
QUICK = {"batch": "48", "limit": "88MiB", "tune_seconds": 1.2, "iterations": 1}


def say(text):
    print(text, file=sys.stderr, flush=True)


def parser_of(doc, name, **defaults):
    """The options of a script that runs convnet, with the script's defaults."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--target", type=pathlib.Path, required=True, help="folder of libucudnn.so and libhostdnn.so")
    parser.add_argument("--convnet", type=pathlib.Path, required=True, help="the program to run")
    parser.add_argument("--cudnn", help="folder of the libcudnn.so.9 to use [the GPU's; without a GPU hostdnn]")
    parser.add_argument("--network", default="alexnet", help="a file of examples/networks, without .csv")
    parser.add_argument("--batch", default="128", help="images in a mini-batch")
    parser.add_argument("--type", default="float", choices=["float", "half", "double"])
    parser.add_argument("--format", default="nchw", choices=["nchw", "nhwc"])
    parser.add_argument("--math", default="default", choices=["default", "tensor-op", "fma"])
    parser.add_argument("--iterations", default=3, type=count, help="timed iterations a round [%(default)s]")
    parser.add_argument("--rounds", type=count, help="plain and preloaded in turns; medians over all [%(default)s]")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / name, help="where results go")
    if "limit" in defaults:
        parser.add_argument("--limit", help="workspace a kernel may use: bytes, 64MiB or none")
        parser.add_argument("--query", default="get", choices=["get", "find", "findex", "none"])
    parser.set_defaults(**defaults)
    return parser


def on_host(options):
    return (options.cudnn or cudnn.find()) is None


def plain_environment(options):
    """The caller's variables without the library's, for the cuDNN to use."""
    plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("UCUDNN_")}
    return plain | {"LD_LIBRARY_PATH": cudnn.library_path(options.cudnn or cudnn.find())}


def preloaded_environment(options, plain, report, **more):
    """The same with the library, and with the caller's settings of it."""
    ours = {name: value for name, value in os.environ.items() if name.startswith("UCUDNN_")}
    return plain | ours | variables.preloaded(options.target / "libucudnn.so", report, **more)


def network_of(options):
    return ROOT / "examples" / "networks" / f"{options.network}.csv"


def command_of(options, folder, iterations, dump=True):
    """The program's command line. Its report and its outputs, if wanted, go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        str(options.convnet), "--limit", options.limit, "--batch", options.batch, "--type", options.type,
        "--format", options.format, "--math", options.math, "--query", options.query, "--iterations", str(iterations),
        *(["--dump", str(folder)] if dump else []), "--json", str(folder / "convnet.json"),
        str(network_of(options)),
    ]  # fmt: skip


def run(options, environment, folder, dump=True):
    """Runs the program once; returns its report. Its outputs are left in `folder` if wanted."""
    command = command_of(options, folder, options.iterations, dump)
    start = time.monotonic()
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"demo: {' '.join(command)}\ndemo: ended with {result.returncode}")
    say(f"demo: {time.monotonic() - start:.1f} s")
    return json.loads((folder / "convnet.json").read_text())


def run_in_turns(options, environments):
    """Runs the program plain and preloaded in turns; returns both reports."""
    with contextlib.ExitStack() as runners:

        def begin(side, hear):
            folder = options.output / side
            command = command_of(options, folder, options.rounds * options.iterations)
            return runners.enter_context(Runner(command, environments[side], folder / "convnet.json", hear))

        plain = begin("plain", say)
        kernels = [said.removeprefix("chose ") for said in plain.until("ready")]
        # Units of work are seconds, roughly: tuning a kernel, an iteration, writing and comparing outputs.
        progress = Progress("demo", 4 * len(kernels) + 2 * (1 + options.rounds * options.iterations) + 5, sys.stderr)
        runners.callback(progress.close)
        progress.step("warming up: plain", 1)
        slower = slowness_of(plain)
        if not on_host(options):
            slower = 1.0  # GPUs compute while processors wait
        if slower > 1 + rounds.DISTURBED:
            progress.say(f"demo: another program uses this machine, so tuning may take {slower:.1f} times as long")
        tune = {"UCUDNN_TUNE_SECONDS": f"{options.tune_seconds * slower:.1f}"}
        environments["with"] = tune | environments["with"]
        preloaded = begin("with", progress.say)
        steps = preloaded.until("ready")
        for number, kernel in enumerate(kernels, 1):
            progress.step(f"tuning {number} of {len(kernels)}: {kernel}", 4)
            next(steps, None)
        for _ in steps:
            pass
        sides = (("plain", plain), ("with libucudnn.so", preloaded))
        progress.step("warming up: with libucudnn.so", 1)
        preloaded.iterate()
        for number in range(1, options.rounds + 1):
            for name, runner in sides:
                progress.step(f"round {number} of {options.rounds}: {name}", options.iterations)
                for _ in range(options.iterations):
                    runner.iterate()
        progress.step("writing outputs", 5)
        return plain.finish(), preloaded.finish()


def slowness_of(runner):
    """Runs one iteration, and returns how much longer it takes than on a quiet machine."""
    before = runner.scheduled()
    runner.iterate()
    return rounds.slowness(before, runner.scheduled())


def read_plans(path):
    """The report's decisions, in order: the events with a kernel's division."""
    return [event for event in whole_lines(path) if "division" in event and event["event"] != "checked"]


def plan_of(kernel, plans):
    """The last plan for this kernel: same direction, and same shapes and parameters where both name them."""
    names = ["direction", "x", "w", "y", "pad", "stride", "dilation", "groups"]
    fits = [p for p in plans if all(p[n] == kernel[n] for n in names if p.get(n) is not None)]
    return fits[-1] if fits else None


def elements(path, kind, count=1 << 18):
    """A dumped output, piece by piece."""
    code, size = {"float": ("f", 4), "double": ("d", 8), "half": ("e", 2)}[kind]
    with open(path, "rb") as file:
        while piece := file.read(count * size):
            yield struct.unpack(f"<{len(piece) // 2}e", piece) if code == "e" else array.array(code, piece)


def difference(path, reference, kind):
    """||out - ref|| / ||ref|| over the whole output."""
    if path.read_bytes() == reference.read_bytes():
        return 0.0
    apart, norm = [], []
    for out, ref in zip(elements(path, kind), elements(reference, kind), strict=True):
        apart.append(math.dist(out, ref))
        norm.append(math.hypot(*ref))
    return math.hypot(*apart) / math.hypot(*norm)


def compare(options, plain, preloaded, plans):
    """One row for each kernel, from all runs of each kind."""
    rows = []
    for kernels in zip(*(r["kernels"] for r in plain + preloaded), strict=True):
        before, after = kernels[: len(plain)], kernels[len(plain) :]
        first, last = before[0], after[-1]
        name = f"{first['layer']}.{first['direction']}.raw"
        plan = plan_of(last, plans)
        rows.append({
            "kernel": f"{first['layer']} {first['direction']}",
            "plain_algorithm": first["algorithm_name"],
            "plain_workspace": first["workspace"],
            "plain_ms": statistics.median(t for k in before for t in k["times_ms"]),
            "division": (plan or {}).get("division") or last["algorithm_name"],
            "workspace": last["workspace"],
            "ms": statistics.median(t for k in after for t in k["times_ms"]),
            "difference": difference(options.output / "with" / name, options.output / "plain" / name, options.type),
        })  # fmt: skip
    # The program runs forward, then backward. A layer's kernels are easier to compare side by side.
    layers = list(dict.fromkeys(row["kernel"].split()[0] for row in rows))
    directions = ["F", "BD", "BF"]
    return sorted(rows, key=lambda r: (layers.index(r["kernel"].split()[0]), directions.index(r["kernel"].split()[1])))


def total(rows):
    sums = {key: sum(r[key] for r in rows) for key in ["plain_workspace", "plain_ms", "workspace", "ms"]}
    return {"kernel": "all", "plain_algorithm": "", "division": "", **sums,
            "difference": max(r["difference"] for r in rows)}  # fmt: skip


def where(options):
    """The cuDNN that both runs use, in words."""
    if not on_host(options):
        return "cuDNN, on the GPU"
    return "hostdnn, on the CPU" + (" (for the GPU here, no cuDNN 9 was found)" if cudnn.has_gpu() else "")


def sentences(options, preloaded, everything, of_rounds):
    """What the table says, in words, and whether the outputs agree."""
    speed_up = everything["plain_ms"] / everything["ms"]
    accepted = {"float": 1e-5, "half": 2e-3, "double": 1e-5}[options.type]
    if options.type == "float" and options.math != "fma" and not on_host(options):
        accepted = 2e-3  # a GPU may round both factors to TF32, each by up to 2⁻¹⁰ where it cuts them off
    agree = everything["difference"] <= accepted
    return agree, [
        f"An iteration takes {everything['plain_ms']:.0f} ms plain and {everything['ms']:.0f} ms with us: "
        f"{speed_up:.2f} times as fast (medians). Planning took {preloaded['asking_ms'] / 1e3:.1f} s, once.",
        *rounds.verdict(of_rounds["plain_ms"], of_rounds["ms"]).splitlines(),
        f"Outputs {'agree' if agree else 'DO NOT AGREE'}: the largest |with - plain| / |plain| is "
        f"{everything['difference']:.1e} (accepted: {accepted:.0e}).",
    ]  # fmt: skip


def parse_arguments():
    parser = parser_of(__doc__, "demo", limit="128MiB", rounds=3, iterations=2, tune_seconds=TUNE_SECONDS)
    parser.add_argument("--command", type=pathlib.Path, help="the command ucudnn, which shows the results [TARGET/ucudnn]")
    parser.add_argument("--tune-seconds", type=above_zero, help="tuning of a kernel on a quiet machine [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="on hostdnn, other defaults: half a minute in all")
    options = parser.parse_args()
    if options.quick and on_host(options):
        parser.set_defaults(**QUICK)
        options = parser.parse_args()
    options.command = options.command or options.target / "ucudnn"
    return options


def main():
    options = parse_arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    plain_variables = plain_environment(options)
    report = options.output / "report.jsonl"
    # Each demonstration tunes anew.
    database = str(variables.fresh(options.output / "tuning.sqlite"))
    preloaded_variables = preloaded_environment(options, plain_variables, report, UCUDNN_DATABASE=database)
    report.unlink(missing_ok=True)
    if options.limit != "none":
        preloaded_variables["UCUDNN_WORKSPACE_LIMIT"] = options.limit
    title = (f"{options.network}, batch {options.batch}, {options.type}, {options.format.upper()}, "
             f"workspace limit {options.limit} a kernel, {where(options)}")  # fmt: skip
    say(f"demo: {title}: plain and under LD_PRELOAD=libucudnn.so, {options.rounds} rounds in turns; tuning comes first")
    plain, preloaded = run_in_turns(options, {"plain": plain_variables, "with": preloaded_variables})
    say("demo: comparing outputs")
    rows = compare(options, [plain], [preloaded], read_plans(report))
    everything = total(rows)
    of_rounds = {"plain_ms": rounds.totals(plain, options.rounds), "ms": rounds.totals(preloaded, options.rounds)}
    agree, said = sentences(options, preloaded, everything, of_rounds)
    result = {"title": title, "network": str(network_of(options)), "rows": rows, "total": everything,
              "rounds": of_rounds, "sentences": said}  # fmt: skip
    (options.output / "demo.json").write_text(json.dumps(result, indent=1))
    for dumped in options.output.glob("*/*.raw"):
        dumped.unlink()
    shown = subprocess.run([options.command, "demo", "--show", options.output])
    sys.exit(shown.returncode or int(not agree))


if __name__ == "__main__":
    try:
        main()
    except Ended as why:
        sys.exit(f"demo: {why}")
    except KeyboardInterrupt:
        sys.exit(130)
