"""Times ways to compute a net over graphs in turns, and first holds their results against double precision.

A net is what dynamic_nets.py makes: it has `graphs`; `inputs(ids, options)`, what runs of these graphs take beside the
model and the batch; and `expected(model, ids, *inputs)`, a run's results, from a model in double precision.
"""

import copy
import random
import statistics
import sys
import time

import torch

import finds_harness  # noqa: F401
from harness.calls import waiting, worst

OURS = "ucudnn"


class Method:
    """One way to compute a net: prepare(ids) makes a batch of these graphs in the method's own form, and
    forward(model, batch, x) returns h of all its vertices in the caller's order. Subclasses may do otherwise. No error
    may be more than `allowed` times eager PyTorch's."""

    #: Whether runs are forward alone, without gradients.
    is_inference = False
    #: Whether it prepares a run during the one before: then runs are timed in a row alone.
    is_for_rows = False

    def __init__(self, name, prepare, forward, allowed=2.0):
        self.name, self.prepare, self.forward, self.allowed = name, prepare, forward, allowed
        self.times, self.preparing = [], []

    def batches(self, id_lists):
        """The batches of these lists of graphs. Takes the time of each."""
        self.preparing, made = [], []
        for ids in id_lists:
            begin = time.perf_counter()
            made.append(self.prepare(ids))
            self.preparing.append(time.perf_counter() - begin)
        return made

    def warm(self, model, batch, *inputs):
        """Comes before each timed run, untimed: for what a training does once for many batches."""

    def run(self, model, batch, x, dh):
        """Forward and backward: h, and the gradients of x and of all parameters. In inference, h alone."""
        if self.is_inference:
            with torch.inference_mode():
                return [self.forward(model, batch, x)]
        model.zero_grad()
        x.grad = None
        h = self.forward(model, batch, x)
        h.backward(dh)
        return [h, x.grad, *(parameter.grad for parameter in model.parameters())]

    def run_in_a_row(self, model, batches, inputs):
        """Runs of several batches, whose inputs are a list of each one's."""
        for batch, its in zip(batches, inputs, strict=True):
            self.run(model, batch, *its)

    def results(self, model, batch, *inputs):
        """What is held against double precision: a list of tensors."""
        self.warm(model, batch, *inputs)
        return self.run(model, batch, *inputs)


def sampled(count, batches, graphs):
    """The numbers of the graphs of some batches."""
    source = random.Random(count)
    return [source.sample(range(len(graphs)), count) for _ in range(batches)]


# Types of numbers: torch's, whether products may be in TF32, and the most that eager PyTorch's error may be.
TYPES = {"float": (torch.float32, False, 1e-5), "TF32": (torch.float32, True, 1e-2),
         "half": (torch.float16, False, 3e-2), "bfloat16": (torch.bfloat16, False, 3e-1)}  # fmt: skip


def random_numbers(graphs, ids, options):
    """Inputs, and the gradient of h, of a batch."""
    batch = graphs.batch(ids)
    dtype, _, _ = TYPES[options.type]
    x, dh = (torch.randn(len(rows), options.hidden, device=options.device, dtype=dtype)
             for rows in (batch.rows, batch.vertices))  # fmt: skip
    return x.requires_grad_(), dh


def errors(everyone, net, model, options):
    """The largest error of each method against double precision, over some batches: one, where others wait for us."""
    exact, found = copy.deepcopy(model).double(), [[] for _ in everyone]
    id_lists = sampled(3, 1 if options.waits else 3, net.graphs)
    of_methods = zip(*(method.batches(id_lists) for method in everyone), strict=True)
    for ids, batches in zip(id_lists, of_methods, strict=True):
        torch.manual_seed(ids[0])
        inputs = net.inputs(ids, options)
        expected = net.expected(exact, ids, *inputs)
        for method, batch, its in zip(everyone, batches, found, strict=True):
            its.append(worst(method.results(model, batch, *inputs), expected))
    return torch.tensor(found).amax(1).tolist()


def check(everyone, eager, net, model, options):
    """Whether no method is further from double precision than it may be."""
    bound, *found = errors([eager, *everyone], net, model, options)
    print(f"errors, relative to double precision: eager {bound:.1e}", end="")
    is_right = bound <= TYPES[options.type][2]
    for method, error in zip(everyone, found, strict=True):
        if method is not eager:
            is_exact = error <= method.allowed * bound
            is_right &= is_exact
            print(f", {method.name} {error:.1e}{'' if is_exact else ' WRONG'}", end="")
    print(flush=True)
    return is_right


WARM_UPS = 2


class Timing:
    """Batches of a number of graphs, and their runs by all methods in turns: each takes the same batch, or the same ones in
    a row, and another begins each round. Methods are copies: those of several timings may be ready at once."""

    def __init__(self, everyone, count, net, model, options):
        self.count, self.net, self.model, self.options = count, net, model, options
        self.everyone = [copy.copy(method) for method in everyone]
        self.id_lists = sampled(count, (options.rounds + WARM_UPS) * options.in_a_row, net.graphs)
        self.batches = {method: method.batches(self.id_lists) for method in self.everyone}

    def rounds(self):
        """Of each round the number, the inputs, and each method with its batches."""
        row = self.options.in_a_row
        for number in range(self.options.rounds + WARM_UPS):
            of_round, first = slice(number * row, (number + 1) * row), number % len(self.everyone)
            inputs = [self.net.inputs(ids, self.options) for ids in self.id_lists[of_round]]
            for method in self.everyone[first:] + self.everyone[:first]:
                its = self.batches[method][of_round]
                method.warm(self.model, its[0], *inputs[0])
                yield number, inputs, method, its

    def prepare(self):
        """Runs ours with all batches, and others with some. What batches compile, and what of them is captured, is there
        then."""
        for number, inputs, method, its in self.rounds():
            if number < WARM_UPS or is_ours(method.name):
                method.run_in_a_row(self.model, its, inputs)

    def measure(self):
        wait = waiting(self.options.device)
        for method in self.everyone:
            method.times = []
        for number, inputs, method, its in self.rounds():
            wait()
            begin = time.perf_counter()
            method.run_in_a_row(self.model, its, inputs)
            wait()
            if number >= WARM_UPS:
                method.times.append((time.perf_counter() - begin) / len(its))
        return row(self.count, self.everyone, self.options)


def row(count, everyone, options):
    """The figures of a batch size: of each method the quartiles in ms, and the ms of making a batch; and the ratios."""
    found = {"hidden": options.hidden, "batch": count, "ms": {}, "prepare": {}, "ratio": {}}
    for method in everyone:
        found["ms"][method.name] = [1e3 * time for time in statistics.quantiles(method.times, n=4)]
        if method.preparing:
            found["prepare"][method.name] = 1e3 * statistics.median(method.preparing)
    for ours in filter(is_ours, found["ms"]):
        others = {name: quartiles[1] for name, quartiles in found["ms"].items() if not is_ours(name)}
        found["ratio"][ours] = {name: other / found["ms"][ours][1] for name, other in others.items()}
    return found


def is_ours(name):
    return name.startswith(OURS)


def show(found):
    """Prints the figures of a batch size."""
    cells = [f"{name} {middle:9.3f} ({low:.2f} to {high:.2f})" for name, (low, middle, high) in found["ms"].items()]
    print(f"batch {found['batch']:3}, ms: " + ", ".join(cells))
    for ours, ratios in found["ratio"].items():
        if ratios:
            print(f"   {ours}: times as fast as " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    print("   making a batch, ms: " + ", ".join(f"{name} {time:.3f}" for name, time in found["prepare"].items()))
    sys.stdout.flush()
