"""What the processes of rnn_training.py run: passes, repeated ones, and times of layers. Needs PyTorch."""

import contextlib
import gc
import json
import statistics
import time
from fnmatch import fnmatchcase

import torch

from harness import calls
from harness.results import decisions
from recurrent import Program, graphed, timed, until_decided
from rnn import Case
from rnn_training import FORMS, LENGTH, STEPS, WARM_UP, among, chosen_since, layers
from rnn_training import cases, dropout_cases, repeated_cases


def train(program, device, steps=20):
    """The losses of some steps of SGD."""
    model, x, states = program.leaves(device=device)
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
    for _ in range(WARM_UP):
        expected = program.gradients(device=device)
    model, x, states = program.leaves(device=device)

    def gradients():
        return [x.grad, *(weight.grad for weight in model.parameters())]

    expected = expected[len(program.forward(model, x, states)) :]
    if name == "retain_graph":
        loss = program.loss(program.forward(model, x, states))
        loss.backward(retain_graph=True)
        first = [gradient.clone() for gradient in gradients()]
        loss.backward()
        second = [gradient / 2 for gradient in gradients()]
        return calls.largest([calls.worst(first, expected), calls.worst(second, expected)])
    if name == "no_grad":
        with torch.no_grad():
            results = program.forward(model, x, states)
        return calls.worst(results, program.forward(*program.leaves(device=device)))
    if name == "captured":

        def ready():
            model.zero_grad(set_to_none=True)
            x.grad = None

        graph, _ = calls.captured(lambda: program.loss(program.forward(model, x, states)).backward(), ready=ready)
        errors = []
        for _ in range(100):
            graph.replay()
        for _ in range(3):
            for gradient in gradients():
                gradient.zero_()
            graph.replay()
            errors.append(calls.worst(gradients(), expected))
        return calls.largest(errors)
    if name == "autocast":
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            results = program.forward(model, x, states)
        program.loss(results).backward()
        return calls.worst(gradients(), expected)
    context = torch.autograd.graph.save_on_cpu() if name == "save_on_cpu" else contextlib.nullcontext()
    with context:
        if name == "checkpoint":
            from torch.utils.checkpoint import checkpoint

            results = checkpoint(lambda x: program.forward(model, x, states), x, use_reentrant=False)
        else:
            results = program.forward(model, x, states)
    program.loss(results).backward()
    return calls.worst(gradients(), expected)


def run_all(device, only):
    """Prints a line for each case: its name, and its error, losses or difference."""
    for case in among(cases(), device, only):
        program = Program(case)
        expected = program.gradients(device="cpu", dtype=torch.double)
        for _ in range(WARM_UP):
            found = program.gradients(device=device)
        its = {"case": case.name, "precision": case.precision, "error": calls.worst(found, expected)}
        print(json.dumps(its), flush=True)
    for case in among(dropout_cases(), device, only):
        program = Program(case)
        program.gradients(device=device)
        torch.manual_seed(3)
        print(json.dumps({"case": case.name, "losses": train(program, device)}), flush=True)
    for name in FORMS if device == "cuda" else FORMS[:4]:
        if not fnmatchcase(name, only):
            continue
        program = Program(Case("small", "lstm", "float", 2, 72, 5, 23, 1, "seq"))
        print(json.dumps({"case": name, "difference": form(name, program, device)}), flush=True)


def run_repeats(device, only, passes):
    """Prints a line for each case: how many passes differ from the first one, and what they ran on."""
    for case in among(repeated_cases(), device, only):
        program, before = Program(case), decisions("rnn-training")
        leaves = program.leaves(device=device)
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


def settle(step, most=120.0, before=None):
    """Runs steps until libucudnn.so has chosen more than `before`, or for so many seconds. Returns what it chose. Where a
    database knows the choice, it comes within the first passes."""
    before = decisions("rnn-training") if before is None else before
    until_decided("rnn-training", before, step, most)
    return chosen_since(before)


class Watched:
    """Steps whose gradients should be the first step's. `off` is the most that any was: ||a - b|| / ||b||."""

    def __init__(self, step):
        self.step = step
        self.first = [gradient.float() for gradient in step()]
        self.norms = torch.stack([gradient.norm() for gradient in self.first])
        self.off = torch.zeros_like(self.norms)

    def __call__(self):
        apart = [(a.float() - b).norm() for a, b in zip(self.step(), self.first, strict=True)]
        # A NaN must not get lost.
        self.off = torch.maximum(self.off, torch.stack(apart) / self.norms)


def layer(cell, precision, hidden, batch, options, device):
    """A layer over LENGTH steps, with inputs as wide as H: its forward, and a step that returns gradients."""
    # A program whose types have 2 bytes leaves this as PyTorch sets it.
    torch.backends.cudnn.allow_tf32 = precision != "float"
    place = {"device": device, "dtype": calls.TYPES[precision]}
    model = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](hidden, hidden, **options, **place)
    width = (model.proj_size or hidden) * (2 if model.bidirectional else 1)
    x, dy = (torch.randn(LENGTH, batch, columns, **place) for columns in (hidden, width))
    leaves = [x.requires_grad_(), *model.parameters()]

    def step():
        for leaf in leaves:
            leaf.grad = None
        model(x)[0].backward(dy)
        return [leaf.grad for leaf in leaves]

    return lambda: model(x), step


def warm_up():
    """What a process does before it waits for its turn: cuDNN, cublas and the library are loaded, and have run."""
    _, both = layer("lstm", "half", 16, 2, {}, "cuda")
    for _ in range(WARM_UP):
        both()
    torch.cuda.synchronize()


def run_times(names, ways, most):
    """Prints the times of each layer, once it has settled, for which it has so many seconds. A later visit is for the eager
    step alone."""
    chosen = {}
    for name in names:
        found = times_of(layers()[name], ["eager"] if name in chosen else ways, most, chosen.get(name))
        chosen[name] = found["chosen"]
        print(json.dumps({"case": name} | found), flush=True)
        # Processes that wait leave the memory to others.
        gc.collect()
        torch.cuda.empty_cache()


def times_of(its, ways, most, known=None):
    """The times of a layer, what was chosen for it, how far its gradients were from the first step's, and the host's time of
    an eager step. What was chosen may be `known` from an earlier visit."""
    before = decisions("rnn-training")
    forward, both = layer(*its, "cuda")
    watched = Watched(both)
    for _ in range(WARM_UP):
        watched()
    chosen, off = known or settle(watched, most, before), watched.off.max().item()
    timing = {"forward": lambda: graphed(forward), "captured": lambda: graphed(both), "eager": lambda: timed(both, "cuda")}
    times = {way: timing[way]() for way in ways}
    return {"times": times, "chosen": chosen, "off": off, "host": until_returned(both)}


def until_returned(step, count=10):
    """The median milliseconds until a step returns that begins on an idle device."""
    times = []
    for _ in range(count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    torch.cuda.synchronize()
    return statistics.median(times)


def run_first_steps(device, name):
    """Prints the seconds of a layer's first steps in a process whose cuDNN has run before."""

    def seconds(cell, precision, hidden, batch, options, steps):
        _, both = layer(cell, precision, hidden, batch, options, device)
        begin = time.perf_counter()
        for _ in range(steps):
            both()
        calls.waiting(device)()
        return time.perf_counter() - begin

    cell, precision, *sizes = layers()[name]
    seconds(cell, precision, 16, 2, {}, 1)
    print(json.dumps({"case": name, "seconds": seconds(cell, precision, *sizes, STEPS)}), flush=True)
