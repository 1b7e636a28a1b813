"""Vertex nets: ready nets and products beside eager PyTorch by levels, random nets beside the library's host executor."""

import copy
import random
import sys

import torch
import ucudnn
from harness.calls import TYPES, allow_tf32
from harness.cudnn import ROOT

from . import Normal, eager_nets, replace

# A random net with a number nearer than this to where a derivative jumps is not compared: rounding decides there.
OFF_KINKS = 1e-5
# The least divisor of errors in random nets' gradients. If terms cancel, only the rounding of numbers about 1 is left.
LEAST = 1e-2


class Linear(torch.nn.Module):
    """A product at each vertex, which has no children."""

    def __init__(self, inputs, outputs, bias):
        super().__init__()
        self.W = torch.nn.Linear(inputs, outputs, bias=bias)
        push = lambda v: v.push(y=v.linear("W", v.pull("x", inputs)))  # noqa: E731
        self.net = ucudnn.VertexNet({}, {"any": push}, self)

    def forward(self, batch, x):
        return self.net(batch, x=x).y


def module_of(case):
    sizes = (case["input"], case["hidden"])
    match case["kind"]:
        case "child-sum":
            return ucudnn.nn.ChildSumTreeLSTM(*sizes)
        case "tree-gru":
            return ucudnn.nn.TreeGRU(*sizes)
        case "dag-gru":
            return ucudnn.nn.DagGRU(*sizes)
        case "n-ary":
            return ucudnn.nn.NaryTreeLSTM(*sizes, case["arity"])
        case "linear":
            return Linear(*sizes, case["bias"])


class Ready:
    """A ready net, or a product, with two batches in turns."""

    def __init__(self, case, device):
        self.case, self.kind = case, TYPES[case["precision"]]
        allow_tf32(case["precision"] == "tf32")
        torch.manual_seed(case["net"])
        self.module = module_of(case).to(device, self.kind)
        self.children, self.ids = case["children"], case["batches"]
        rows = "leaves" if case["kind"] == "n-ary" else None
        graphs = ucudnn.Graphs(self.children, rows=rows)
        if case["static"]:
            self.batch = graphs.batch(max(self.ids, key=len), static=True)
            self.rows = [self.batch.most_vertices] * 2
        else:
            self.batches = [graphs.batch(ids) for ids in self.ids]
        self.now, normal = 0, Normal(case, device)
        self.levels = [eager_nets.Levels([self.children[i] for i in ids], rows, device) for ids in self.ids]
        states = 2 if case["kind"] in ("child-sum", "n-ary") else 1
        self.results = ["h", "c"][:states]
        self.data = []
        for levels in self.levels:
            x = normal(levels.rows, case["input"], dtype=self.kind)
            self.data.append((x, [normal(levels.vertices, case["hidden"], dtype=self.kind) for _ in range(states)]))
        self.weights = [[its.detach().clone() for its in self.module.parameters()]]
        self.weights.append([its + 0.1 * its.abs().mean() * normal(*its.shape, dtype=self.kind) for its in self.weights[0]])
        # Both batches have their inputs in the same memory: after the second batch's rows, rows of the first remain.
        x_rows = max(len(x) for x, _ in self.data)
        rows = max(levels.vertices for levels in self.levels)
        if case["static"]:
            x_rows = rows = self.batch.most_vertices
        self.x = torch.zeros(x_rows, case["input"], dtype=self.kind, device=device)
        self.dy = [torch.zeros(rows, case["hidden"], dtype=self.kind, device=device) for _ in range(states)]

    def renew(self, which):
        self.now = which
        x, dy = self.data[which]
        if self.case["static"]:
            self.batch.set(self.ids[which])
        replace([self.x[: len(x)], *(to[: len(its)] for to, its in zip(self.dy, dy, strict=True))], [x, *dy])
        replace(self.module.parameters(), self.weights[which])

    def run(self):
        if self.case["static"]:
            batch, x, dy = self.batch, self.x, self.dy
        else:
            its = self.data[self.now]
            batch, x, dy = self.batches[self.now], self.x[: len(its[0])], [dy[: len(its[1][0])] for dy in self.dy]
        passes = []
        for _ in range(self.case["alive"]):
            leaf = x.detach().requires_grad_()
            results = self.module(batch, leaf)
            passes.append((leaf, results if isinstance(results, tuple) else (results,)))
        found = {}
        for place, (leaf, results) in reversed(list(enumerate(passes))):
            gradients = torch.autograd.grad(results, [leaf, *self.module.parameters()], dy)
            found |= self._named(f"{place}: ", results, gradients)
        return found

    def cut(self, found):
        """The rows that the batch has, of results of a static one; and whether those behind are zeros."""
        if not self.case["static"]:
            return found, []
        cut, wrong = {}, []
        for name, tensor in found.items():
            rows = self._rows(name)
            cut[name] = tensor if rows is None else tensor[:rows]
            # Gradients are zeros in rows that nobody read, and in rows after the last vertex.
            if rows is not None:
                wrong.append((name, tensor[rows:]))
        return cut, wrong

    def _rows(self, name):
        name = name.partition(": ")[2]
        levels = self.levels[self.now]
        return levels.rows if name == "dx" else levels.vertices if name in self.results else None

    def _named(self, prefix, results, gradients):
        found = dict(zip(self.results, (result.detach() for result in results), strict=True))
        found |= dict(zip(["dx", *(f"d {name}" for name, _ in self.module.named_parameters())], gradients, strict=True))
        return {prefix + name: tensor for name, tensor in found.items()}

    def _eager(self, which, kind):
        """The net by levels in this type."""
        x, dy = self.data[which]
        names = [name for name, _ in self.module.named_parameters()]
        leaves = [its.to(kind, copy=True).requires_grad_() for its in (x, *self.weights[which])]
        weights = dict(zip(names, leaves[1:], strict=True))
        results = eager_nets.run(self.case["kind"], weights, leaves[0], self.levels[which])
        gradients = torch.autograd.grad(results, leaves, [its.to(kind) for its in dy], allow_unused=True)
        pairs = zip(leaves, gradients, strict=True)
        gradients = [torch.zeros_like(leaf) if its is None else its for leaf, its in pairs]
        return {name: its for place in range(self.case["alive"])
                for name, its in self._named(f"{place}: ", results, gradients).items()}

    def exact(self, which):
        return self._eager(which, torch.double)

    def rival(self, which):
        return self._eager(which, self.kind)

    def magnitude(self, name, which):
        return None

    def traits(self, name):
        levels = max(its.count for its in self.levels)
        vertices = max(its.vertices for its in self.levels)
        depth = (self.case["input"] + 4 * self.case["hidden"]) * levels + (vertices if ": d " in name else 0)
        return {"precision": self.case["precision"], "depth": depth, "chain": 2 * levels, "goes_by_plain": False}


class Random:
    """A random net. The library's host executor in double precision is exact, and the one in float is its rival."""

    def __init__(self, case, device):
        sys.path.append(str(ROOT / "python/tests"))
        import common

        self.case, self.device = case, device
        allow_tf32(False)
        source = random.Random(case["net"])
        torch.manual_seed(case["net"])
        has_kinds = source.random() < 0.3
        arities = source.choice(common.RandomNet.ARITIES_OF_KINDS if has_kinds else common.RandomNet.ARITIES)
        self.exact_model = common.RandomNet(source, arities)
        self.host = self._like(torch.float32, "cpu")
        self.module = self._like(torch.float32, device)
        source = random.Random(case["graphs"])
        torch.manual_seed(case["graphs"])
        way = source.choice([None, "leaves", "array"])
        draw = lambda: common.random_graph(source, arities, has_kinds)  # noqa: E731
        plain = [common.with_rows(source, draw(), way) for _ in range(source.randint(1, 4))]
        ids = [source.randrange(len(plain)) for _ in range(source.randint(1, 4))]
        self.batch = common.random_graphs(source, plain, way).batch(ids)
        self.data = []
        for _ in range(2):
            inputs = self.exact_model.inputs(len(self.batch.rows))
            inputs = {name: its.float().double() if its.is_floating_point() else its for name, its in inputs.items()}
            widths = [self.exact_model.pushed[name] for name in self.exact_model.outputs]
            self.data.append((inputs, [torch.randn(len(self.batch.vertices), width).double() for width in widths]))
        text = self.exact_model.net.text()
        pulls = [[inputs[name] for name in self.exact_model.names] for inputs, _ in self.data]
        graphs = [plain[id] for id in ids]
        kinks = (common.Interpreter(text, graphs, self.exact_model.used, its).nearest_kink for its in pulls)
        self.is_skipped = min(kinks) < OFF_KINKS
        self.x = {name: its.to(device, torch.float32 if its.is_floating_point() else its.dtype, copy=True)
                  for name, its in self.data[0][0].items()}  # fmt: skip

    def _like(self, kind, device):
        return copy.deepcopy(self.exact_model).to(device, kind)

    def renew(self, which):
        self.now = which
        with torch.no_grad():
            for name, its in self.data[which][0].items():
                self.x[name].copy_(its)

    def run(self):
        seeds = [its.to(self.device, torch.float32) for its in self.data[self.now][1]]
        return self._results(self.module, self.x, seeds)

    def _results(self, model, inputs, seeds):
        leaf = lambda its: its.detach().requires_grad_() if its.is_floating_point() else its  # noqa: E731
        leaves = {name: leaf(its) for name, its in inputs.items()}
        outputs = model.net(self.batch, **leaves)
        parameters = [getattr(model, f"P{number}") for number in range(model.count)]
        wanted = [its for its in (*leaves.values(), *parameters) if its.is_floating_point()]
        found = torch.autograd.grad(outputs, wanted, seeds, allow_unused=True)
        named = {f"output {name}": its.detach() for name, its in zip(outputs._fields, outputs, strict=True)}
        return named | {f"gradient {place}": torch.zeros_like(leaf) if its is None else its
                        for place, (leaf, its) in enumerate(zip(wanted, found, strict=True))}

    def cut(self, found):
        return found, []

    def _on_host(self, which, model, kind):
        inputs, seeds = self.data[which]
        inputs = {name: its.to(kind) if its.is_floating_point() else its for name, its in inputs.items()}
        found = self._results(model, inputs, [its.to(kind) for its in seeds])
        return {name: its.to(self.device) for name, its in found.items()}

    def exact(self, which):
        # The numbers that float holds.
        return self._on_host(which, copy.deepcopy(self.host).double(), torch.double)

    def rival(self, which):
        return self._on_host(which, self.host, torch.float32)

    def magnitude(self, name, which):
        return LEAST

    def traits(self, name):
        return {"precision": "float", "depth": 1000, "chain": 100, "goes_by_plain": False}


def Subject(case, device):  # noqa: N802
    return Random(case, device) if case["kind"] == "random" else Ready(case, device)
