"""RNN inference by torch.nn.LSTM, GRU and RNN, plain and under libucudnn.so, each in a process of its own, in turns.

    python examples/pytorch/rnn.py --shim target/release/libucudnn.so --out build/rnn [--seconds 300]

Writes OUT/rnn.txt (the table) and OUT/rnn.csv: milliseconds a call (medians; eager, and replayed as a CUDA graph), and
‖y − y64‖ / ‖y64‖ against float64 on the CPU. `text` and `char` are the networks of GRNN's paper: text classification (2 LSTM
layers, 256 units, 20 steps) and a character model (3 layers, 128 units, 100 steps). The grid has 100 steps and inputs as wide
as the hidden state."""

import argparse
import csv
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

SIZES = (256, 1024, 64, 512, 128, 1536)
BATCHES = (1, 10, 20, 4, 32, 64)
PRECISIONS = ("float", "half", "tf32", "bfloat16")
# Larger ones take long on the CPU.
MOST_CHECKED = 20 * 1024
WARM_UP, TIMED = 40, 30


def cases():
    """(name, cell, precision, layers, hidden, batch, steps, directions, layout), the most telling first."""
    for batch, precision in itertools.product((1, 4, 10, 20), ("float", "half")):
        yield "text", "lstm", precision, 2, 256, batch, 20, 1, "seq"
        yield "char", "lstm", precision, 3, 128, batch, 100, 1, "seq"
    for precision, hidden, batch in itertools.product(PRECISIONS[:2], SIZES[:4], BATCHES[:3]):
        yield "grid", "lstm", precision, 1, hidden, batch, 100, 1, "seq"
    for cell, precision in itertools.product(("gru", "tanh", "relu"), PRECISIONS[:2]):
        for hidden, batch in itertools.product(SIZES[:3], BATCHES[:2]):
            yield "grid", cell, precision, 1, hidden, batch, 100, 1, "seq"
    for precision, layout, directions in itertools.product(PRECISIONS, ("seq", "batch", "packed"), (1, 2)):
        yield "layouts", "lstm", precision, 2, 256, 8, 50, directions, layout
        yield "layouts", "gru", precision, 2, 200, 5, 50, directions, layout
    for cell, precision, hidden, batch in itertools.product(("lstm", "gru"), PRECISIONS, SIZES, BATCHES):
        yield "grid", cell, precision, 1, hidden, batch, 100, 1, "seq"


def measure(case, torch):
    """Times and errors of one case; its seed is its own."""
    name, cell, precision, layers, hidden, batch, steps, directions, layout = case
    torch.manual_seed(7)
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    data_type = {"half": torch.half, "bfloat16": torch.bfloat16}.get(precision, torch.float)
    options = dict(num_layers=layers, bidirectional=directions == 2, batch_first=layout == "batch")
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(cell, torch.nn.RNN)
    if kind is torch.nn.RNN:
        options["nonlinearity"] = cell
    model = kind(hidden, hidden, **options).eval()
    shape = (batch, steps, hidden) if layout == "batch" else (steps, batch, hidden)
    x = torch.randn(shape)
    pack = torch.nn.utils.rnn.pack_padded_sequence
    lengths = [steps - row * steps // (2 * batch) for row in range(batch)]

    def given(x):
        return pack(x, lengths) if layout == "packed" else x

    def output(y):
        return y.data if layout == "packed" else y

    rounded_x, rounded = x.to(data_type), model.to(data_type)
    on_device = kind(hidden, hidden, **options).eval().to(device="cuda", dtype=data_type)
    on_device.load_state_dict(rounded.state_dict())
    on_device.flatten_parameters()
    found = {}
    with torch.inference_mode():
        inputs = given(rounded_x.cuda())

        def run():
            return on_device(inputs)[0]

        first = output(run())
        for _ in range(WARM_UP):
            run()
        torch.cuda.synchronize()
        last = output(run())
        found["eager_ms"] = timed(run, torch)
        if layout != "packed":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run()
            found["graph_ms"] = timed(graph.replay, torch)
        if hidden * batch * layers * directions <= MOST_CHECKED:
            expected = output(rounded.double()(given(rounded_x.double()))[0])
            norm = expected.norm()
            found["first_error"] = ((first.cpu().double() - expected).norm() / norm).item()
            found["error"] = ((last.cpu().double() - expected).norm() / norm).item()
    return found


def timed(run, torch):
    times = []
    for _ in range(TIMED):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def child(seconds):
    """Measures cases until the time is up: a line of JSON each."""
    import torch

    done, until = set(), time.monotonic() + seconds
    for case in cases():
        if case in done or time.monotonic() > until:
            continue
        done.add(case)
        try:
            found = measure(case, torch)
        except RuntimeError as error:
            found = {"failed": str(error).splitlines()[0]}
        print(json.dumps({"case": case, **found}), flush=True)


COLUMNS = ("network", "cell", "precision", "layers", "hidden", "batch", "steps", "directions", "layout")
VALUES = ("eager_ms", "graph_ms", "first_error", "error", "failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", type=pathlib.Path, help="libucudnn.so")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the results")
    parser.add_argument("--seconds", type=float, default=300, help="what all this may take [300]")
    parser.add_argument("--rnn", default="auto", help="UCUDNN_RNN under the shim [auto]")
    parser.add_argument("--child", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        return child(options.child)
    if not options.shim or not options.out:
        parser.error("--shim and --out are needed")
    if not options.shim.is_file():
        parser.error(f"there is no {options.shim}")
    options.out.mkdir(parents=True, exist_ok=True)
    runs = {}
    for kind in ("plain", "ours"):
        environment = dict(os.environ)
        if kind == "ours":
            report = options.out / "rnn-report.jsonl"
            environment |= {"LD_PRELOAD": str(options.shim.resolve()), "UCUDNN_RNN": options.rnn,
                            "UCUDNN_REPORT": str(report)}  # fmt: skip
            environment.setdefault("UCUDNN_DATABASE", str(options.out / "rnn.sqlite"))
        print(f"rnn: {kind}: at most {options.seconds / 2:.0f} s", file=sys.stderr)
        command = [sys.executable, __file__, "--child", str(options.seconds / 2)]
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        if result.returncode:
            print(f"rnn: {kind} ended with {result.returncode}; what it measured before is shown", file=sys.stderr)
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        runs[kind] = {tuple(line["case"]): line for line in lines}
    write(options.out, runs)


def write(out, runs):
    both = [case for case in runs["plain"] if case in runs["ours"]]
    with open(out / "rnn.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, *(f"{kind}_{value}" for value in VALUES for kind in ("plain", "ours"))])
        for case in both:
            writer.writerow([*case, *(runs[kind][case].get(value, "") for value in VALUES for kind in ("plain", "ours"))])
    lines = ["times faster: plain's milliseconds to ours. errors: of the first call and of the last, to float64.", ""]
    lines.append(f"{'':44} {'eager ms':>9} {'ours':>8} {'faster':>7} {'graph ms':>9} {'ours':>8} {'faster':>7}"
                 f" {'error':>9} {'first':>9} {'ours':>9}")  # fmt: skip
    for case in both:
        network, cell, precision, layers, hidden, batch, steps, directions, layout = case
        plain, ours = runs["plain"][case], runs["ours"][case]
        what = f"{network:7} {cell:4} {precision:8} L{layers} H{hidden} B{batch} T{steps} D{directions} {layout}"
        if "failed" in plain or "failed" in ours:
            lines.append(f"{what:44} plain: {plain.get('failed', 'ran')}; ours: {ours.get('failed', 'ran')}")
            continue
        texts = [f"{what:44}"]
        for value in ("eager_ms", "graph_ms"):
            before, after = plain.get(value), ours.get(value)
            texts.append(f"{before:9.3f} {after:8.3f} {before / after:7.2f}" if before else f"{'–':>9} {'–':>8} {'–':>7}")
        errors = [plain.get("error"), ours.get("first_error"), ours.get("error")]
        texts += [f"{error:9.1e}" if error is not None else f"{'–':>9}" for error in errors]
        lines.append(" ".join(texts))
    (out / "rnn.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
