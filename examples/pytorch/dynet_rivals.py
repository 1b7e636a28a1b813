"""Nets in DyNet (Neubig et al., 2017) with its automatic batching, on a CPU: the wheel dyNET38 of PyPI, where it is installed.

    pip install dyNET38
    python dynamic_nets.py --methods ucudnn,E,DyNet --threads 1

A program in DyNet writes one vertex after another; `forward` finds operations that go together (Neubig, Goldberg and Dyer,
NeurIPS 2017). Rows of x are an embedding, so that they have gradients; it is filled before a run, untimed. DyNet computes on
one thread.
"""

import functools
import importlib
import importlib.util

import torch

from timing import Method

DYNET, MEGABYTES = "DyNet", 4096


@functools.cache
def dynet():
    """The package, which takes its settings before it is imported."""
    import dynet_config

    dynet_config.set(mem=MEGABYTES, autobatch=1)
    return importlib.import_module("dynet")


class DyNet(Method):
    """cell(parameters, x, children) returns the states of a vertex, h first; x is None where it has no row."""

    def __init__(self, structures, cell, allowed=2.0):
        super().__init__(DYNET, list, None, allowed)
        self.structures, self.cell, self.of_model = structures, cell, None

    def warm(self, model, ids, x, dh):
        """Gives DyNet the numbers of parameters and inputs."""
        if self.of_model is not model:
            self.of_model, self.collection = model, dynet().ParameterCollection()
            self.parameters = {name: self.collection.parameters_from_numpy(its.detach().numpy())
                               for name, its in model.named_parameters()}  # fmt: skip
        self.inputs = dynet().ParameterCollection()
        self.words = self.inputs.lookup_parameters_from_numpy(x.detach().numpy())

    def run(self, model, ids, x, dh):
        """The loss is the sum of all numbers of h times those of dh, so dh is its gradient by h."""
        dy = dynet()
        dy.renew_cg()
        for its in self.parameters.values():
            its.scale_gradient(0)
        parameters = {name.replace(".", "_"): its for name, its in self.parameters.items()}
        found, base = [], 0
        for graph in ids:
            children, rows, _ = self.structures.graph(graph)
            states = []
            for its, row in zip(children, rows):
                word = self.words[base + row] if row >= 0 else None
                states.append(self.cell(dy, parameters, word, [states[child] for child in its if child >= 0]))
            found += [h for h, *_ in states]
            base += max(rows) + 1
        self.h = found
        loss = dy.esum([dy.dot_product(h, dy.inputVector(row)) for h, row in zip(found, dh.tolist(), strict=True)])
        loss.forward()
        loss.backward()

    def results(self, model, ids, x, dh):
        self.warm(model, ids, x, dh)
        self.run(model, ids, x, dh)
        gradients = [self.words.grad_as_array(), *(its.grad_as_array() for its in self.parameters.values())]
        return [torch.tensor([h.value() for h in self.h]), *map(torch.tensor, gradients)]


def tree_lstm_cell(dy, parameters, x, children):
    hidden = parameters["W_bias"].dim()[0][0] // 3
    part = lambda gates, number: dy.pick_range(gates, number * hidden, (number + 1) * hidden)
    if children:
        (left, c_left), (right, c_right) = children
        gates = dy.affine_transform([parameters["U_bias"], parameters["U_weight"], dy.concatenate([left, right])])
        kept = dy.cmult(dy.logistic(part(gates, 3)), c_left) + dy.cmult(dy.logistic(part(gates, 4)), c_right)
    else:
        gates, kept = dy.affine_transform([parameters["W_bias"], parameters["W_weight"], x]), None
    i, o, u = (part(gates, number) for number in range(3))
    c = dy.cmult(dy.logistic(i), dy.tanh(u))
    c = c if kept is None else c + kept
    return dy.cmult(dy.logistic(o), dy.tanh(c)), c


def lstm_cell(dy, parameters, x, children):
    hidden = parameters["lstm_bias_hh_l0"].dim()[0][0] // 4
    if "bias" not in parameters:  # once, or vertices would not go together
        parameters["bias"] = parameters["lstm_bias_ih_l0"] + parameters["lstm_bias_hh_l0"]
    of_h = [parameters["lstm_weight_hh_l0"], children[0][0]] if children else []
    gates = dy.affine_transform([parameters["bias"], parameters["lstm_weight_ih_l0"], x, *of_h])
    i, f, g, o = (dy.pick_range(gates, number * hidden, (number + 1) * hidden) for number in range(4))
    c = dy.cmult(dy.logistic(i), dy.tanh(g))
    c = c + dy.cmult(dy.logistic(f), children[0][1]) if children else c
    return dy.cmult(dy.logistic(o), dy.tanh(c)), c


def with_dynet(rivals, cell):
    """These and DyNet's, where it is installed: its wheel is for CPUs."""

    def both(structures, device):
        is_there = device == "cpu" and importlib.util.find_spec("_dynet")
        return [*rivals(structures, device), *([DyNet(structures, cell)] if is_there else [])]

    return both
