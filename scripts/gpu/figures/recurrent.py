"""GRNN's Table 1: networks by units and batch, beside cuDNN and the CPU; its performance model beside a search of all."""

import csv
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from gpu import machine
from harness import children
from harness.children import failure
from harness.columns import number
from harness.cudnn import ROOT
from harness.results import events, whole_lines
from harness.variables import fresh

CELLS, SIZES, BATCHES, STEPS = ("lstm", "gru"), (256, 64, 1024, 128, 512), (5, 1, 10, 20), 100
NETWORKS = [f"{cell}/float/{size}/{batch}" for batch in BATCHES for cell in CELLS for size in SIZES]
ON_HOST = ["lstm/float/20/3"]
# The share of the part's time for calls on the CPU.
PROCESSOR = 0.2
# A search compiles and times this many at most: all there are.
ALL, TOP = 100_000, 5
# The networks that are searched, if there is time: those of few configurations first. An H200 has 52 for LSTM with 1,024
# units, and 942 for GRU with 128.
SEARCHES = [f"{cell}/float/{size}/5" for size in (1024, 512, 256, 64, 128) for cell in CELLS]
SECONDS = 1
HEADER = ["network", "cuDNN ms", "ours", "times as fast", "PyTorch's CPU ms", "times as fast", "ours by"]
LEGEND = """\
Milliseconds of a call in inference, one layer, {} steps, inputs as wide as the hidden state, in float without TF32;
cuDNN: the best of its algorithms, on a stream; CPU: torch.nn.LSTM on this machine's processor."""
SEARCHED = ["network", "configurations", "best", "µs", "top 1", "µs", "longer by", f"top {TOP}", "µs", "longer by"]
OF_SEARCH = f"""\
Microseconds of a time step by the fastest of all configurations that fit the device, each compiled and timed; top 1: by
the performance model's first choice; top {TOP}: by the best of those {TOP} that the library times by default, which are the
model's best, and the first of each kind."""


def table(session):
    networks = [name for name in session.sized(NETWORKS, ON_HOST) if session.wants(name)]
    on_cpu = processor(session, networks, PROCESSOR * session.time)
    compile_kernels(session, networks)
    lines = bench(session, networks, session.time)
    if lines:
        legend = LEGEND.format(steps(session))
        session.table("GRNN's Table 1: inference by units and batch", legend, rows(lines, on_cpu), (0, 6))
    session.leave_out("cuDNN's algorithms and ours", [name for name in networks if name not in lines])


def compile_kernels(session, networks):
    """Compiles the networks' kernels side by side. They stay beside the table's database, whose times are thrown away."""
    if session.host or session.is_over:
        return
    database = session.out / "rnn-bench/tuning.sqlite"
    database.parent.mkdir(exist_ok=True)
    session.say(f"kernels of {len(networks)} networks are compiled")

    def one(network):
        name = f"compiled-{network.replace('/', '-')}"
        session.command(name, "tune", "--rnn", in_words(network, STEPS), "--database", database, most=60)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, networks))
    fresh(database)


def steps(session):
    return session.sized(STEPS, 4)


def search(session):
    """Times all configurations of networks."""
    table, left_out = [SEARCHED], []
    for network in session.sized(SEARCHES, ON_HOST):
        if not session.wants(network):
            continue
        if session.is_over:
            left_out.append(network)
            continue
        session.say(f"all configurations of {network}")
        found = {}
        # The library's own few come first. Compiled kernels are not compiled again.
        for count in (TOP, session.sized(ALL, TOP + 1)):
            name = f"search-{count}-{network.replace('/', '-')}"
            report = session.out / f"{name}.report.jsonl"
            report.unlink(missing_ok=True)
            words = ["tune", "--rnn", in_words(network, steps(session)), "--top-k", count]
            words += ["--database", fresh(session.out / f"search-{count}.sqlite")]
            if session.command(name, *words, most=session.time, UCUDNN_REPORT=report) is None:
                break
            found[count] = events(report, "rnn")[-1]
        if len(found) == 2:
            table.append(searched(network, *found.values()))
    session.leave_out("searches", left_out)
    if len(table) > 1:
        title = "GRNN's performance model beside a search of all configurations"
        session.table(title, OF_SEARCH, table, (0, 2, 4, 7))


def in_words(network, count):
    cell, kind, hidden, batch = network.split("/")
    return f"{cell.upper()} hidden={hidden} batch={batch} steps={count} type={kind} math=fma"


def times_of(event):
    """Milliseconds of a step by configuration, of those of ours that ran."""
    ours = (time for time in event["times"] if time["what"] != "cuDNN")
    return {time["what"]: time["step_ms"] for time in ours if time["step_ms"] is not None}


def searched(network, few, everything):
    """A row of the search: `few` is the report's line of the library's own few configurations. All times are of the search."""
    times = times_of(everything)
    if not times:
        return [network, "none ran", *["–"] * (len(SEARCHED) - 2)]
    best, first = min(times, key=times.get), everything["first"]
    of_few = min((what for what in times_of(few) if what in times), key=times.get, default=None)
    cells = [network, str(len(times)), best, f"{1e3 * times[best]:.3f}"]
    for what in (first, of_few):
        known = what in times
        cells += [what or "–", *([f"{1e3 * times[what]:.3f}", f"{times[what] / times[best] - 1:.1%}"] if known else ["–", "–"])]
    return cells


def processor(session, networks, most):
    """The median milliseconds of a call of PyTorch's LSTM on the CPU, by network, of those that there is time for."""
    lstms = [name for name in networks if name.startswith("lstm/")]
    if not session.python or not lstms:
        return {}
    out, log = (session.out / f"cpu.{ending}" for ending in ("csv", "log"))
    words = [word for name in lstms for word in (*name.split("/")[2:], steps(session), "float")]
    command = machine.program("rnn_calls", SECONDS, "cpu", *words, python=session.python)
    status = session.run(command, most, machine.torch_environment(), out, log)
    if status:
        session.verdict("WRONG", "torch.nn.LSTM on the CPU", failure(status, log))
    times = {}
    # One alone has no number.
    for *number, _, took in csv.reader(out.read_text().splitlines()):
        times.setdefault(lstms[int(number[0]) if number else 0], []).append(float(took))
    session.leave_out("torch.nn.LSTM on the CPU", [name for name in lstms if name not in times])
    return {name: statistics.median(its) for name, its in times.items()}


def bench(session, networks, most):
    """The lines of the CSV of examples/rnn_bench/table.py, by network. It goes on where it stopped."""
    out = session.out / "rnn-bench"
    if not session.begins("rnn_bench", f"cuDNN's algorithms and ours, {most:.0f} s"):
        return {}
    command = [sys.executable, "-B", ROOT / "examples/rnn_bench/table.py", "--bench", session.options.bench, "--shim",
               session.library, "--out", out, "--seconds", most, "--steps", steps(session),
               *(["--cudnn", session.folder] if session.folder else []),
               *(word for name in networks for word in ("--network", name)),
               *session.sized([], ["--rounds=2", "--samples=3", "--rnn=force"])]  # fmt: skip
    # It keeps the time itself, and then writes its table and its picture.
    children.run(command, session.limit(most + 10), None, session.out / "rnn-bench.log")
    for line in whole_lines(out / "results.jsonl"):
        if "failed" in line:
            session.verdict("WRONG", line["network"], line["failed"])
    # Without a table it has failed, as its log says.
    lines = (out / "table.csv").read_text().splitlines() if session.wrote(out / "table.csv", "rnn_bench") else []
    return {line["network"]: line for line in csv.DictReader(lines)}


def rows(lines, on_cpu):
    """The table. `lines` are those of rnn_bench's CSV, whose fields are empty where cuDNN refuses a network."""
    yield HEADER
    for name, line in lines.items():
        best = read(line.get(f"{line['stream best']} stream ms"))
        ours, faster, cpu = read(line["ours stream ms"]), read(line["stream faster"]), on_cpu.get(name)
        yield [name, number(best, ".3f"), number(ours, ".3f"), number(faster, ".2f"), number(cpu, ".3f"),
               number(cpu / ours if cpu and ours else None, ".2f"), line["chosen"]]  # fmt: skip


def read(text):
    return float(text) if text else None
