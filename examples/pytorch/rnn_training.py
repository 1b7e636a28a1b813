"""Training of torch.nn.LSTM, GRU and RNN, plain and under libucudnn.so (UCUDNN_RNN_TRAINING=force): errors of gradients.

    python examples/pytorch/rnn_training.py --shim target/release/libucudnn.so

An error is the worst of ||g - g64|| / ||g64|| of the output, the last states, and the gradients of the input, of the
first states and of each weight, against float64 on the CPU. Ours may be at most 1.5 times plain's, or 8 units of the
type's last digit above it. With dropout, losses of 20 training steps are compared instead, which need equal masks. Then
programs of other forms: retain_graph, save_on_cpu, checkpoint, no_grad, autocast, and a captured step.

It prints a line for each case, and fails if one is above. Without --shim it runs plain alone. Instead of that,

--times       prints times with UCUDNN_RNN_TRAINING=auto once that has chosen: of forward, and of forward and backward,
              replayed as a CUDA graph, and eager
--repeats N   makes the same pass N times on our kernels, and fails if any bit of a result or gradient differs
--first-steps prints what the first 100 steps of a new network take with `auto`, from an empty database, in new
              processes; it fails if that is more than 1.05 times plain's

UCUDNN_DATABASE and UCUDNN_EXPLORE hold where they are set, but not for --first-steps.
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
from harness.arguments import count  # noqa: E402
from harness.children import last_line  # noqa: E402
from rnn import CELLS, LAYOUTS, PRECISIONS, Case, flat, module, timed  # noqa: E402

# The most that our error may be, in times plain's; and the units that it may be above.
ALLOWED, UNITS = 1.5, 8
UNIT = {"float": 2**-24, "tf32": 2**-11, "half": 2**-11, "bfloat16": 2**-8}
# Passes before the one that is looked at: until then cuDNN may run.
WARM_UP = 4
# The layers whose steps are timed, and the time steps of their sequences.
HIDDEN, BATCHES, LENGTH = (128, 256, 512, 1024), (8, 32, 64, 128, 256), 100
FORMS = ("retain_graph", "save_on_cpu", "checkpoint", "no_grad", "autocast", "captured")
# The layers whose first steps are timed, how many, in how many processes each, and the most that they may take, in
# times plain's.
FIRST = ("lstm/bfloat16/H256 B32", "lstm/tf32/H512 B64", "gru/half/H512 B64")
STEPS, ROUNDS, MOST_FIRST = 100, 3, 1.05
# The model's first choice runs at once, and nothing else.
FORCED = {"UCUDNN_RNN_TRAINING": "force", "UCUDNN_RNN_TOP_K": "1"}


def cases():
    """The cases whose gradients are compared with float64."""
    axes = (PRECISIONS, CELLS, LAYOUTS, (1, 2))
    found = [Case("small", cell, precision, 2, 72, 5, 23, directions, layout)
             for precision, cell, layout, directions in itertools.product(*axes)]  # fmt: skip
    for precision, cell in itertools.product(PRECISIONS, CELLS):
        for extra in ("states", "no bias", "one step"):
            found.append(Case("small", cell, precision, 2, 72, 5, 1 if extra == "one step" else 23, 2, "seq", extra))
        for hidden, batch, steps in ((200, 33, 11), (1024, 9, 7)):
            found.append(Case("small", cell, precision, 1, hidden, batch, steps, 1, "packed", "unsorted"))
    # ReLU's gradient jumps at 0, where numbers of few digits fall on either side.
    return [case for case in found if case.cell != "relu" or case.precision == "float"]


def dropout_cases():
    axes = (("float", "half", "bfloat16"), ("lstm", "gru"), ("seq", "packed"), (1, 2))
    return [Case("small", cell, precision, 3, 72, 5, 23, directions, layout, "dropout")
            for precision, cell, layout, directions in itertools.product(*axes)]  # fmt: skip


def repeated_cases():
    """The cases whose passes are repeated. Dropout is off: with it each pass has a mask of its own."""
    found = [("lstm", "float", 1, 256, 32, 50, 1, "seq"), ("gru", "float", 1, 128, 64, 50, 1, "batch"),
             ("lstm", "tf32", 2, 256, 32, 50, 1, "seq"), ("gru", "tf32", 1, 512, 16, 50, 1, "seq"),
             ("lstm", "half", 1, 320, 16, 50, 1, "packed"), ("gru", "half", 1, 256, 64, 50, 1, "seq"),
             ("lstm", "bfloat16", 1, 1024, 32, 20, 1, "seq"), ("gru", "bfloat16", 1, 256, 16, 50, 2, "seq")]  # fmt: skip
    return [Case("repeated", *its) for its in found]


def type_of(precision, torch):
    return {"half": torch.half, "bfloat16": torch.bfloat16}.get(precision, torch.float)


class Program:
    """A case's network and data, from its own seed."""

    def __init__(self, case, torch):
        self.case, self.torch = case, torch
        torch.manual_seed(7)
        torch.backends.cudnn.allow_tf32 = case.precision == "tf32"
        self.type = type_of(case.precision, torch)
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
        return self.one_pass(*self.leaves(to))

    def one_pass(self, model, x, states):
        leaves = [x, *states, *model.parameters()]
        for leaf in leaves:
            leaf.grad = None
        results = self.forward(model, x, states)
        self.loss(results).backward()
        return [*results, *(leaf.grad for leaf in leaves)]


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


def among(cases, device, only):
    """Those cases that run on the device, and are like the pattern."""
    # PyTorch's CPU has no LSTM in types of 2 bytes.
    return [case for case in cases if fnmatchcase(case.name, only) and (device == "cuda" or case.precision == "float")]


def run_all(device, only):
    """Prints a line for each case: its name, and its error, losses or difference."""
    import torch

    for case in among(cases(), device, only):
        program = Program(case, torch)
        expected = program.gradients({"device": "cpu", "dtype": torch.double})
        for _ in range(WARM_UP):
            found = program.gradients({"device": device})
        print(json.dumps({"case": case.name, "precision": case.precision, "error": worst(found, expected)}), flush=True)
    for case in among(dropout_cases(), device, only):
        program = Program(case, torch)
        program.gradients({"device": device})
        torch.manual_seed(3)
        print(json.dumps({"case": case.name, "losses": train(program, device)}), flush=True)
    for name in FORMS if device == "cuda" else FORMS[:4]:
        if not fnmatchcase(name, only):
            continue
        program = Program(Case("small", "lstm", "float", 2, 72, 5, 23, 1, "seq"), torch)
        print(json.dumps({"case": name, "difference": form(name, program, device)}), flush=True)


def run_repeats(device, only, passes):
    """Prints a line for each case: how many passes differ from the first one, and what they ran on."""
    import torch

    for case in among(repeated_cases(), device, only):
        program, before = Program(case, torch), decisions()
        leaves = program.leaves({"device": device})
        whole = torch.int16 if program.type.itemsize == 2 else torch.int32

        def bits(program=program, leaves=leaves, whole=whole):
            return torch.cat([found.detach().flatten() for found in program.one_pass(*leaves)]).view(whole)

        for _ in range(WARM_UP):
            bits()
        first, different = bits(), torch.zeros((), dtype=torch.long, device=device)
        for _ in range(passes):
            different += (bits() != first).any()
        found = {"case": case.name, "passes": passes, "different": different.item(), "chosen": chosen_since(before)}
        print(json.dumps(found), flush=True)


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


def chosen_since(before):
    """What libucudnn.so has chosen last, forward and backward, if it has chosen since these decisions."""
    now = decisions()
    return [now[-1]["forward"], now[-1]["backward"]] if now and len(now) > len(before) else None


def settle(step, torch, most=120.0):
    """Runs steps until libucudnn.so has chosen, or for so many seconds. Returns what it chose."""
    before = decisions()
    end = time.monotonic() + most
    while before is not None and time.monotonic() < end:
        for _ in range(8):
            step()
            torch.cuda.synchronize()
        if chosen := chosen_since(before):
            return chosen
    return None


class Watched:
    """Steps whose gradients should be the first step's. `off` is the most that any was: ||a - b|| / ||b||."""

    def __init__(self, step, torch):
        self.step, self.torch = step, torch
        self.first = [gradient.float() for gradient in step()]
        self.norms = torch.stack([gradient.norm() for gradient in self.first])
        self.off = torch.zeros_like(self.norms)

    def __call__(self):
        apart = [(a.float() - b).norm() for a, b in zip(self.step(), self.first, strict=True)]
        # A NaN must not get lost.
        self.off = self.torch.maximum(self.off, self.torch.stack(apart) / self.norms)


def layers(only="*"):
    """The layers whose steps are timed: cell, precision, H and B, by name."""
    axes = itertools.product(HIDDEN, BATCHES, CELLS[:2], PRECISIONS)
    named = {f"{cell}/{precision}/H{hidden} B{batch}": (cell, precision, hidden, batch)
             for hidden, batch, cell, precision in axes}  # fmt: skip
    return {name: its for name, its in named.items() if fnmatchcase(name, only)}


def layer(cell, precision, hidden, batch, torch, device):
    """A layer over LENGTH steps, with inputs as wide as the state: its forward, and a step that returns its gradients."""
    # A program whose types have 2 bytes leaves this as PyTorch sets it.
    torch.backends.cudnn.allow_tf32 = precision != "float"
    place = {"device": device, "dtype": type_of(precision, torch)}
    model = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](hidden, hidden, **place)
    x, dy = (torch.randn(LENGTH, batch, hidden, **place) for _ in range(2))
    leaves = [x.requires_grad_(), *model.parameters()]

    def step():
        for leaf in leaves:
            leaf.grad = None
        model(x)[0].backward(dy)
        return [leaf.grad for leaf in leaves]

    return lambda: model(x), step


def run_times(only):
    """Prints times of layers."""
    import torch

    for name, its in layers(only).items():
        forward, both = layer(*its, torch, "cuda")
        watched = Watched(both, torch)
        chosen, off = settle(watched, torch), watched.off.max().item()
        times = [graphed(torch, forward), graphed(torch, both), timed(both, torch, "cuda")]
        print(json.dumps({"case": name, "times": times, "chosen": chosen, "off": off}), flush=True)


def run_first_steps(device, name):
    """Prints the seconds of a layer's first steps in a process whose cuDNN has run before."""
    import torch

    def seconds(cell, precision, hidden, batch, steps):
        _, both = layer(cell, precision, hidden, batch, torch, device)
        begin = time.perf_counter()
        for _ in range(steps):
            both()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    cell, precision, *sizes = layers()[name]
    seconds(cell, precision, 16, 2, 1)
    print(json.dumps({"case": name, "seconds": seconds(cell, precision, *sizes, STEPS)}), flush=True)


class Ended(Exception):
    """A child process failed."""


def child(script, words, variables):
    """The lines of a script in a process of its own."""
    command = [sys.executable, "-B", "-W", "ignore", script, "--run", *words]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    if found.returncode:
        raise Ended(f"it ended with {found.returncode}: {last_line(found.stderr)}\n{found.stderr[-2000:]}")
    for line in dict.fromkeys(line for line in found.stderr.splitlines() if "ucudnn" in line):
        print(line, file=sys.stderr)
    return [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]


def preloaded(options, **variables):
    """The variables of a run under libucudnn.so."""
    ours = {"LD_PRELOAD": str(options.shim.resolve()), "UCUDNN_REPORT": str(options.report),
            "UCUDNN_DATABASE": os.environ.get("UCUDNN_DATABASE", "off")}  # fmt: skip
    return ours | variables


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
        # Each kernel that was tried gave gradients to within rounding of the first step's, which are cuDNN's.
        off, most = ours["off"], max(1e-4, 32 * UNIT[plain["case"].split("/")[1]])
        return f"{words}; off by {off:.1e}", off <= most
    if "losses" in plain:
        pairs = zip(plain["losses"], ours["losses"], strict=True)
        off = max(abs(a - b) / max(abs(a), 1e-3) for a, b in pairs)
        return f"losses differ by {off:.1e}", off <= (1e-3 if "/float/" in plain["case"] else 3e-2)
    most = 1e-2 if plain["case"] == "autocast" else 1e-5
    words = f"differs from a plain pass by {plain['difference']:.1e} plain, {ours['difference']:.1e} ours"
    return words, ours["difference"] <= max(most, 1.5 * plain["difference"])


def compare_repeats(found, is_forced):
    """The result of repeated passes in words, and whether it is as it should be."""
    words = f"{found['different']} of {found['passes']} passes differ; {', '.join(found['chosen'] or ['nothing chosen'])}"
    return words, found["different"] == 0 and (not is_forced or is_ours(found["chosen"]))


def is_ours(chosen):
    """Whether a network trains on our kernels."""
    return bool(chosen) and chosen[0] != "cuDNN"


def compare_first(plain, ours):
    """The seconds of first steps in words, and whether ours are as they should be."""
    a, b = map(statistics.median, (plain, ours))
    return f"first {STEPS} steps in s: {a:.3f} plain, {b:.3f} ours, {b / a:.3f}", b <= MOST_FIRST * a


def said(case, words, is_right):
    """Prints the result of a case."""
    print(f"{'ok   ' if is_right else 'WRONG'} {case}: {words}", flush=True)
    return is_right


def words_of(options):
    """The words of a child."""
    mode = ["--times"] if options.times else ["--repeats", str(options.repeats)] if options.repeats else []
    return ["--device", options.device, "--only", options.only, *mode]


def both(options):
    """Runs plain and ours. Returns the cases' results, and whether all are right."""
    plain = child(__file__, words_of(options), {})
    # What is compared runs on the model's first choices at once.
    choice = {"UCUDNN_RNN_TRAINING": "auto"} if options.times else FORCED
    ours = child(__file__, words_of(options), preloaded(options, **choice))
    lines = options.report.read_text().splitlines() if options.report.exists() else []
    events = [event for event in map(json.loads, lines) if event["event"] == "rnn-training"]
    trained = sum(is_ours([event["forward"], event["backward"]]) for event in events)
    wrong, ratios, speedups = 0, {}, {}
    for one, other in zip(plain, ours, strict=True):
        wrong += not said(one["case"], *compare(one, other))
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
    found = [{"case": one["case"], "plain": one, "ours": other} for one, other in zip(plain, ours, strict=True)]
    return found, not wrong and (options.device == "cpu" or options.times or trained > 0)


def repeats(options):
    """Runs repeated passes on our kernels. Returns the cases' results, and whether all are right."""
    found = child(__file__, words_of(options), preloaded(options, **FORCED))
    right = [said(one["case"], *compare_repeats(one, options.device == "cuda")) for one in found]
    print(f"{sum(right)} of {len(right)} networks have the same bits in {options.repeats} passes")
    return found, all(right)


def first_steps(options):
    """Runs the first steps of new networks, plain and ours in turns. Returns their seconds, and whether all are right."""
    found, right = [], []
    for name in FIRST if options.only == "*" else layers(options.only):
        seconds = {"plain": [], "ours": []}
        for number in range(ROUNDS):
            for kind in ("plain", "ours") if number % 2 == 0 else ("ours", "plain"):
                with tempfile.TemporaryDirectory() as folder:
                    ours = preloaded(options, UCUDNN_RNN_TRAINING="auto", UCUDNN_EXPLORE="5%",
                                     UCUDNN_DATABASE=f"{folder}/tuning.sqlite")  # fmt: skip
                    words = ["--device", options.device, "--only", name, "--first-steps"]
                    [line] = child(__file__, words, ours if kind == "ours" else {})
                seconds[kind].append(line["seconds"])
        right.append(said(name, *compare_first(**seconds)))
        found.append({"case": name, **seconds})
    print(f"{sum(right)} of {len(right)} new networks take at most {MOST_FIRST} times plain's seconds")
    return found, all(right)


def run(options):
    """What a child does."""
    if options.times:
        return run_times(options.only)
    if options.repeats:
        return run_repeats(options.device, options.only, options.repeats)
    if options.first_steps:
        return run_first_steps(options.device, options.only)
    return run_all(options.device, options.only)


def main():
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--shim", type=pathlib.Path, help="libucudnn.so; without it plain runs alone")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="a CPU is for trying the script")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases like this, such as 'small/lstm/*'")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--times", action="store_true", help="print times, on a GPU")
    modes.add_argument("--repeats", type=count, metavar="N", help="compare the bits of N passes")
    modes.add_argument("--first-steps", action="store_true", help="print times of new networks' first steps")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="a file for the results as JSON")
    parser.add_argument("--report", type=pathlib.Path, help="a file for the report of libucudnn.so (UCUDNN_REPORT)")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return run(options)
    if options.shim and not options.shim.is_file():
        parser.error(f"--shim {options.shim}: no such file")
    if options.first_steps and not options.shim:
        parser.error("--first-steps compares with libucudnn.so: --shim is needed")
    try:
        if not options.shim:
            print(*map(json.dumps, child(__file__, words_of(options), {})), sep="\n")
            return 0
        with tempfile.TemporaryDirectory() as folder:
            options.report = options.report or pathlib.Path(folder) / "report.jsonl"
            found, is_right = (first_steps if options.first_steps else repeats if options.repeats else both)(options)
    except Ended as why:
        sys.exit(f"rnn_training: {why}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
