"""A case of rnn.py or rnn_training.py in PyTorch: its module and data, its passes, and their times."""

import copy
import functools
import time

import torch

from harness import calls
from harness.results import decisions

# The calls of which a time is the median.
timed = functools.partial(calls.timed, count=30)


def module(case):
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(case.cell, torch.nn.RNN)
    options = dict(num_layers=case.layers, bidirectional=case.directions == 2, batch_first=case.layout == "batch",
                   bias=case.extra != "no bias", dropout=0.3 if "dropout" in case.extra else 0)  # fmt: skip
    if kind is torch.nn.RNN:
        options["nonlinearity"] = case.cell
    if is_projected(case):
        options["proj_size"] = case.hidden // 4
    return kind(case.hidden, case.hidden, **options)


def is_projected(case):
    return "project" in case.extra


def flat(result, layout):
    """The output and the last states, as one list of tensors."""
    output, states = result
    output = output.data if layout == "packed" else output
    return [output, *(states if isinstance(states, tuple) else (states,))]


class Program:
    """A case's network and data, from its own seed."""

    def __init__(self, case, is_training=True):
        self.case = case
        torch.manual_seed(7)
        torch.backends.cudnn.allow_tf32 = case.precision == "tf32"
        self.type = calls.TYPES[case.precision]
        self.model = module(case).train(is_training).to(self.type)
        batch_first = case.layout == "batch"
        shape = (case.batch, case.steps, case.hidden) if batch_first else (case.steps, case.batch, case.hidden)
        self.x = torch.randn(shape).to(self.type)
        widths = [case.hidden // 4 if is_projected(case) else case.hidden, case.hidden]
        given = widths[: 2 if case.cell == "lstm" else 1] if "states" in case.extra else []
        shapes = [(case.layers * case.directions, case.batch, width) for width in given]
        self.states = [torch.randn(shape).to(self.type) for shape in shapes]
        self.lengths = [case.steps - row * case.steps // (2 * case.batch) for row in range(case.batch)]
        if case.extra == "unsorted":
            self.lengths = self.lengths[1:] + self.lengths[:1]
        self.factors = {}  # by device and type

    def leaves(self, **to):
        """The model, and the tensors whose gradients are wanted, on a device or in another type."""
        model = copy.deepcopy(self.model).to(**to)
        x, *states = (tensor.clone().to(**to).requires_grad_() for tensor in (self.x, *self.states))
        return model, x, states

    def packed(self, x):
        """The input as the case's layout has it."""
        if self.case.layout != "packed":
            return x
        pack = torch.nn.utils.rnn.pack_padded_sequence
        return pack(x, self.lengths, enforce_sorted=self.case.extra != "unsorted")

    def results(self, model, given, states):
        first = (tuple(states) if len(states) > 1 else states[0]) if states else None
        return flat(model(given, first), self.case.layout)

    def forward(self, model, x, states):
        return self.results(model, self.packed(x), states)

    def loss(self, results):
        """A weighted sum of all results, by weights that do not depend on the device."""
        where = (results[0].device, results[0].dtype)
        if where not in self.factors:
            generator = torch.Generator().manual_seed(11)
            factors = (torch.randn(result.shape, generator=generator) for result in results)
            self.factors[where] = [factor.to(*where) for factor in factors]
        factors = self.factors[where]
        return sum((result * factor).sum() for result, factor in zip(results, factors, strict=True))

    def gradients(self, **to):
        """All results and gradients of one pass."""
        return self.one_pass(*self.leaves(**to))

    def one_pass(self, model, x, states):
        leaves = [x, *states, *model.parameters()]
        for leaf in leaves:
            leaf.grad = None
        results = self.forward(model, x, states)
        self.loss(results).backward()
        return [*results, *(leaf.grad for leaf in leaves)]


def graphed(step):
    """The median milliseconds of a step that is replayed as a CUDA graph."""
    graph, _ = calls.captured(step, 6)
    graph.replay()
    return timed(graph.replay, "cuda")


def until_decided(event, before, step, most, at_once=8):
    """Runs steps until the library has decided more than `before`, or for so many seconds, if it is there. Makes so
    many steps before each look at its report."""
    ends = time.monotonic() + most
    while before is not None and len(decisions(event)) == len(before) and time.monotonic() < ends:
        for _ in range(at_once):
            step()
            torch.cuda.synchronize()
