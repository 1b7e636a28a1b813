"""Training of torch.nn.LSTM, GRU and RNN, plain and under libucudnn.so (UCUDNN_RNN_TRAINING=force): errors of gradients.

    python examples/pytorch/rnn_training.py --shim target/release/libucudnn.so

An error is the worst of ||g - g64|| / ||g64|| of the output, the last states, and the gradients of the input, of the
first states and of each weight, against float64 on the CPU. Ours may be at most 1.5 times plain's, or 8 units of the
type's last digit above it. With dropout, losses of 20 training steps are compared instead, which need equal masks. Then
programs of other forms: retain_graph, save_on_cpu, checkpoint, no_grad, autocast, and a captured step.

It prints a line for each case, and fails if one is above. Without --shim it runs plain alone. --times prints times
instead, with UCUDNN_RNN_TRAINING=auto once that has chosen: of forward, and of forward and backward, replayed as a CUDA
graph, and eager.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatchcase

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from harness.children import last_line  # noqa: E402
from rnn import CELLS, LAYOUTS, PRECISIONS, Case, flat, module, timed  # noqa: E402

# The most that our error may be, in times plain's; and the units that it may be above.
ALLOWED, UNITS = 1.5, 8
UNIT = {"float": 2**-24, "tf32": 2**-11, "half": 2**-11, "bfloat16": 2**-8}
# Passes before the one that is looked at: until then cuDNN may run.
WARM_UP = 4
# The layers whose steps are timed.
HIDDEN, BATCHES = (128, 256, 512, 1024), (8, 32, 64, 128, 256)
FORMS = ("retain_graph", "save_on_cpu", "checkpoint", "no_grad", "autocast", "captured")


def cases():
    """The cases whose gradients are compared with float64."""
    axes = (PRECISIONS, CELLS, LAYOUTS, (1, 2))
    found = [Case("small", cell, precision, 2, 72, 5, 23, directions, layout)
             for precision, cell, layout, directions in itertools.product(*axes)]  # fmt: skip
    for precision, cell in itertools.product(PRECISIONS, CELLS):
        for extra in ("states", "no bias", "one step"):
            found.append(Case("small", cell, precision, 2, 72, 5, 1 if extra == "one step" else 23, 2, "seq", extra))
        found.append(Case("small", cell, precision, 1, 200, 33, 11, 1, "packed", "unsorted"))
    # ReLU's gradient jumps at 0, where numbers of few digits fall on either side.
    return [case for case in found if case.cell != "relu" or case.precision == "float"]


def dropout_cases():
    axes = (("float", "half"), ("lstm", "gru"), ("seq", "packed"), (1, 2))
    return [Case("small", cell, precision, 3, 72, 5, 23, directions, layout, "dropout")
            for precision, cell, layout, directions in itertools.product(*axes)]  # fmt: skip


class Program:
    """A case's network and data, from its own seed."""

    def __init__(self, case, torch):
        self.case, self.torch = case, torch
        torch.manual_seed(7)
        torch.backends.cudnn.allow_tf32 = case.precision == "tf32"
        self.type = {"half": torch.half, "bfloat16": torch.bfloat16}.get(case.precision, torch.float)
        self.model = module(case, torch).train().to(self.type)
        batch_first = case.layout == "batch"
        shape = (case.batch, case.steps, case.hidden) if batch_first else (case.steps, case.batch, case.hidden)
        self.x = torch.randn(shape).to(self.type)
        state = (case.layers * case.directions, case.batch, case.hidden)
        count = 2 if case.cell == "lstm" else 1
        self.states = [torch.randn(state).to(self.type) for _ in range(count if case.extra == "states" else 0)]
        self.lengths = [case.steps - row * case.steps // (2 * case.batch) for row in range(case.batch)]
        if case.extra == "unsorted":
            self.lengths = self.lengths[1:] + self.lengths[:1]
        self.factors = {}  # by device and type

    def leaves(self, to):
        """The model, and the tensors whose gradients are wanted."""
        import copy

        model = copy.deepcopy(self.model).to(**to)
        x, *states = (tensor.clone().to(**to).requires_grad_() for tensor in (self.x, *self.states))
        return model, x, states

    def forward(self, model, x, states):
        given = x
        if self.case.layout == "packed":
            pack = self.torch.nn.utils.rnn.pack_padded_sequence
            given = pack(x, self.lengths, enforce_sorted=self.case.extra != "unsorted")
        first = (tuple(states) if len(states) > 1 else states[0]) if states else None
        return flat(model(given, first), self.case.layout)

    def loss(self, results):
        """A weighted sum of all results, by weights that do not depend on the device."""
        where = (results[0].device, results[0].dtype)
        if where not in self.factors:
            generator = self.torch.Generator().manual_seed(11)
            factors = (self.torch.randn(result.shape, generator=generator) for result in results)
            self.factors[where] = [factor.to(*where) for factor in factors]
        factors = self.factors[where]
        return sum((result * factor).sum() for result, factor in zip(results, factors, strict=True))

    def gradients(self, to):
        """All results and gradients of one pass."""
        model, x, states = self.leaves(to)
        results = self.forward(model, x, states)
        self.loss(results).backward()
        return [*results, x.grad, *(state.grad for state in states), *(weight.grad for weight in model.parameters())]


def worst(found, expected):
    """The worst of ||a - b|| / ||b||."""
    errors = []
    for a, b in zip(found, expected, strict=True):
        off = (a.detach().cpu().double() - b.detach().cpu().double()).norm()
        errors.append((off / b.detach().double().norm().cpu().clamp_min(1e-30)).item())
    return max(errors) if all(error == error for error in errors) else float("nan")


def train(program, device, steps=20):
    """The losses of some steps of SGD."""
    torch = program.torch
    model, x, states = program.leaves({"device": device})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = program.loss(program.forward(model, x, states)) / x.numel()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def form(name, program, device):
    """The gradients of a program of another form, after a plain one's: their difference is 0."""
    torch = program.torch
    for _ in range(WARM_UP):
        expected = program.gradients({"device": device})
    model, x, states = program.leaves({"device": device})

    def gradients():
        return [x.grad, *(weight.grad for weight in model.parameters())]

    expected = expected[len(program.forward(model, x, states)) :]
    if name == "retain_graph":
        loss = program.loss(program.forward(model, x, states))
        loss.backward(retain_graph=True)
        first = [gradient.clone() for gradient in gradients()]
        loss.backward()
        return max(worst(first, expected), worst([gradient / 2 for gradient in gradients()], expected))
    if name == "no_grad":
        with torch.no_grad():
            results = program.forward(model, x, states)
        return worst(results, program.forward(*program.leaves({"device": device})))
    if name == "captured":
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                program.loss(program.forward(model, x, states)).backward()
        torch.cuda.current_stream().wait_stream(stream)
        model.zero_grad(set_to_none=True)
        x.grad = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            program.loss(program.forward(model, x, states)).backward()
        most = 0.0
        for _ in range(100):
            graph.replay()
        for _ in range(3):
            for gradient in gradients():
                gradient.zero_()
            graph.replay()
            most = max(most, worst([gradient.clone() for gradient in gradients()], expected))
        return most
    if name == "autocast":
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            results = program.forward(model, x, states)
        program.loss(results).backward()
        return worst(gradients(), expected)
    context = torch.autograd.graph.save_on_cpu() if name == "save_on_cpu" else contextlib.nullcontext()
    with context:
        if name == "checkpoint":
            from torch.utils.checkpoint import checkpoint

            results = checkpoint(lambda x: program.forward(model, x, states), x, use_reentrant=False)
        else:
            results = program.forward(model, x, states)
    program.loss(results).backward()
    return worst(gradients(), expected)


def run_all(device, only):
    """Prints a line for each case: its name, and its error, losses or difference."""
    import torch

    def wanted(case):
        # PyTorch's CPU has no LSTM in types of 2 bytes.
        return fnmatchcase(case.name, only) and (device == "cuda" or case.precision == "float")

    for case in filter(wanted, cases()):
        program = Program(case, torch)
        expected = program.gradients({"device": "cpu", "dtype": torch.double})
        for _ in range(WARM_UP):
            found = program.gradients({"device": device})
        print(json.dumps({"case": case.name, "precision": case.precision, "error": worst(found, expected)}), flush=True)
    for case in filter(wanted, dropout_cases()):
        program = Program(case, torch)
        program.gradients({"device": device})
        torch.manual_seed(3)
        print(json.dumps({"case": case.name, "losses": train(program, device)}), flush=True)
    for name in FORMS if device == "cuda" else FORMS[:4]:
        if not fnmatchcase(name, only):
            continue
        program = Program(Case("small", "lstm", "float", 2, 72, 5, 23, 1, "seq"), torch)
        print(json.dumps({"case": name, "difference": form(name, program, device)}), flush=True)


def graphed(torch, step):
    """The median milliseconds of a step that is replayed as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(6):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    return timed(graph.replay, torch, "cuda")


def decisions():
    """The decisions of libucudnn.so about networks that train, so far; None without it."""
    report = os.environ.get("UCUDNN_REPORT")
    if not report:
        return None
    lines = pathlib.Path(report).read_text().splitlines() if os.path.exists(report) else []
    return [line for line in map(json.loads, lines) if line["event"] == "rnn-training"]


def settle(step, torch, most=120.0):
    """Runs steps until libucudnn.so has chosen, or for so many seconds. Returns what it chose."""
    before = decisions()
    end = time.monotonic() + most
    while before is not None and time.monotonic() < end:
        for _ in range(8):
            step()
            torch.cuda.synchronize()
        if len(decisions()) > len(before):
            chosen = decisions()[-1]
            return [chosen["forward"], chosen["backward"]]
    return None


def run_times(only):
    """Prints times of layers over 100 steps, with inputs as wide as the state."""
    import torch

    for hidden, batch, cell, precision in itertools.product(HIDDEN, BATCHES, CELLS[:2], PRECISIONS):
        name = f"{cell}/{precision}/H{hidden} B{batch}"
        if not fnmatchcase(name, only):
            continue
        # A program whose types have 2 bytes leaves this as PyTorch sets it.
        torch.backends.cudnn.allow_tf32 = precision != "float"
        data_type = {"half": torch.half, "bfloat16": torch.bfloat16}.get(precision, torch.float)
        model = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](hidden, hidden, device="cuda", dtype=data_type)
        x, dy = (torch.randn(100, batch, hidden, device="cuda", dtype=data_type) for _ in range(2))
        x.requires_grad_()

        def both(model=model, x=x, dy=dy):
            model(x)[0].backward(dy)

        chosen = settle(both, torch)
        times = [graphed(torch, lambda model=model, x=x: model(x)), graphed(torch, both), timed(both, torch, "cuda")]
        print(json.dumps({"case": name, "times": times, "chosen": chosen}), flush=True)


def child(options, variables):
    """The lines of a run in a process of its own."""
    command = [sys.executable, "-B", "-W", "ignore", __file__, "--run", "--device", options.device, "--only", options.only]
    command += ["--times"] if options.times else []
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    if found.returncode:
        sys.exit(f"rnn_training: it ended with {found.returncode}: {last_line(found.stderr)}\n{found.stderr[-2000:]}")
    for line in dict.fromkeys(line for line in found.stderr.splitlines() if "ucudnn" in line):
        print(line, file=sys.stderr)
    return [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]


def compare(plain, ours):
    """The result of a case in words, and whether it is as it should be."""
    if "error" in plain:
        ratio = ours["error"] / plain["error"] if plain["error"] else 1.0
        most = max(ALLOWED * plain["error"], plain["error"] + UNITS * UNIT[plain["precision"]])
        return f"error {plain['error']:.2e} plain, {ours['error']:.2e} ours, {ratio:.2f}", ours["error"] <= most
    if "times" in plain:
        forward, step, eager = (f"{a:.3f} {b:.3f} {b / a:.2f}" for a, b in zip(plain["times"], ours["times"], strict=True))
        chosen = ", ".join(ours.get("chosen") or ["undecided"])
        words = f"plain, ours, ratio in ms: forward {forward}; forward and backward {step}; eager {eager}; {chosen}"
        return words, True
    if "losses" in plain:
        pairs = zip(plain["losses"], ours["losses"], strict=True)
        off = max(abs(a - b) / max(abs(a), 1e-3) for a, b in pairs)
        return f"losses differ by {off:.1e}", off <= (1e-3 if "/float/" in plain["case"] else 3e-2)
    most = 1e-2 if plain["case"] == "autocast" else 1e-5
    words = f"differs from a plain pass by {plain['difference']:.1e} plain, {ours['difference']:.1e} ours"
    return words, ours["difference"] <= max(most, 1.5 * plain["difference"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", type=pathlib.Path, help="libucudnn.so; without it plain runs alone")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="a CPU is for trying the script")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases like this, such as 'small/lstm/*'")
    parser.add_argument("--times", action="store_true", help="print times, on a GPU")
    parser.add_argument("--report", type=pathlib.Path, help="a file for the report of libucudnn.so (UCUDNN_REPORT)")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return run_times(options.only) if options.times else run_all(options.device, options.only)
    if options.shim and not options.shim.is_file():
        parser.error(f"--shim {options.shim}: no such file")
    plain = child(options, {})
    if not options.shim:
        for line in plain:
            print(json.dumps(line))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        report = options.report or pathlib.Path(folder) / "report.jsonl"
        # What is compared runs on the model's first choices at once.
        choice = {"UCUDNN_RNN_TRAINING": "auto"} if options.times else {"UCUDNN_RNN_TRAINING": "force",
                                                                         "UCUDNN_RNN_TOP_K": "1"}  # fmt: skip
        variables = choice | {"LD_PRELOAD": str(options.shim.resolve()), "UCUDNN_DATABASE": "off",
                              "UCUDNN_REPORT": str(report)}  # fmt: skip
        ours = child(options, variables)
        lines = report.read_text().splitlines() if report.exists() else []
    trained = sum(json.loads(line)["event"] == "rnn-training" for line in lines)
    wrong, ratios, speedups = 0, {}, {}
    for one, other in zip(plain, ours, strict=True):
        words, is_right = compare(one, other)
        wrong += not is_right
        print(f"{'ok   ' if is_right else 'WRONG'} {one['case']}: {words}")
        if one.get("error") and other.get("error"):
            ratios.setdefault(one["precision"], []).append(other["error"] / one["error"])
        if "times" in one:
            cell, precision, _ = one["case"].split("/")
            for what, a, b in zip(("captured", "eager"), one["times"][1:], other["times"][1:], strict=True):
                speedups.setdefault(f"{cell} in {precision}, {what}", []).append(a / b)
    for precision, its in ratios.items():
        mean = statistics.geometric_mean(its)
        print(f"{precision}: ours are {mean:.2f} times as far from float64 as plain's, of {len(its)} cases")
    for name, its in speedups.items():
        print(f"{name}: {statistics.geometric_mean(its):.2f} times as fast, at least {min(its):.2f}, of {len(its)} layers")
    print(f"{len(plain) - wrong} of {len(plain)} are right; {trained} networks trained on our kernels")
    return 1 if wrong or (options.device == "cuda" and trained == 0) else 0


if __name__ == "__main__":
    sys.exit(main())
