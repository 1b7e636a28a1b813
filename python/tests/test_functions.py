"""Vertex functions in PyTorch's own words: the same function on a net's values, and on tensors, vertex by vertex."""

import types
import unittest

import torch
import torch.nn.functional as F
import ucudnn
from common import error, random_tree, seeded, tree
from test_docs import BLOCK, ROOT
from torch import nn

WIDTH, CHILDREN = 4, 3
BOUND = 1e-12


class Tensors:
    """A vertex whose values are tensors: [width], or [children, width] of its children."""

    def __init__(self, pulled, slots, done, widths):
        self.pulled, self.slots, self.done, self.widths = pulled, slots, done, widths
        self.states, self.outputs = {}, {}

    def pull(self, name, width):
        return self.pulled[name]

    pull_index = lambda self, name: self.pulled[name]

    def children(self):
        there = [self.done[child].states for child in self.slots if child >= 0]
        none = lambda width: torch.zeros(0, width, dtype=torch.float64)
        of = lambda name, width: torch.stack([states[name] for states in there]) if there else none(width)
        return types.SimpleNamespace(**{name: of(name, width) for name, width in self.widths.items()})

    def gather(self, slot):
        child = self.slots[slot]
        zeros = {name: torch.zeros(width, dtype=torch.float64) for name, width in self.widths.items()}
        return types.SimpleNamespace(**(self.done[child].states if child >= 0 else zeros))

    def scatter(self, **states):
        self.states |= states

    def push(self, **outputs):
        self.outputs |= outputs


class Functions(unittest.TestCase):
    def hold(self, model, function, graph, inputs, states):
        """The net's outputs and gradients are those of the function on tensors. Children come before their parents."""
        model = model.double()
        batch = ucudnn.Graphs([graph.children]).batch([0])
        found = model.net(batch, **inputs)
        done = []
        for vertex, slots in enumerate(graph.children):
            at = Tensors({name: tensor[vertex] for name, tensor in inputs.items()}, slots, done, states)
            function(at)
            done.append(at)
        for name in found._fields:
            its = torch.stack([at.outputs[name] for at in done])
            y = getattr(found, name)
            self.assertLess(error(y, its), BOUND, name)
            seed = torch.randn_like(y)
            tensors = [*model.parameters(), *(it for it in inputs.values() if it.requires_grad)]
            pairs = [torch.autograd.grad((y * seed).sum(), tensors, retain_graph=True, allow_unused=True) for y in (y, its)]
            for place, (gradient, expected) in enumerate(zip(*pairs, strict=True)):
                what = f"{name}, gradient {place}"
                if expected is None:  # of a tensor that other outputs take
                    self.assertFalse(gradient is not None and gradient.any(), what)
                elif expected.norm() > 1e-9:
                    self.assertLess(error(gradient, expected), BOUND, what)
                else:
                    self.assertLess(gradient.norm(), 1e-9, what)

    def of_vertex(self, model, function, children=((), (), (0, 1), (), (2, 3, 0))):
        """One net of any number of children, with the state h; pulls x and the index i."""
        seeded("functions", self.id())

        def of(vertex):
            h = vertex.children().h
            y = function(vertex, vertex.pull("x", WIDTH), h)
            y = y if isinstance(y, (list, tuple)) else [y]
            vertex.push(**{f"y{place}": value for place, value in enumerate(y)})
            vertex.scatter(h=torch.sigmoid(vertex.pull("x", WIDTH)) + torch.sum(h, 0))

        model.net = ucudnn.VertexNet({"h": WIDTH}, {"any": of}, model)
        graph = tree(*children)
        x = torch.randn(len(children), WIDTH, dtype=torch.float64, requires_grad=True)
        inputs = {"x": x, "i": torch.randint(5, (len(children),))}
        inputs = {name: tensor for name, tensor in inputs.items() if name in model.net._declaration.pulls}
        self.hold(model, of, graph, inputs, {"h": WIDTH})

    def test_of_one_value(self):
        functions = [
            torch.tanh, torch.sigmoid, F.relu, torch.relu, torch.exp, torch.square, torch.neg, torch.negative, F.sigmoid,
            nn.Tanh(), nn.Sigmoid(), nn.ReLU(), nn.Identity(), nn.Softmax(-1), lambda x: torch.reciprocal(x * x + 0.5),
            lambda x: torch.log(x * x + 0.5), lambda x: torch.sqrt(x * x + 0.5), lambda x: torch.rsqrt(x * x + 0.5),
            lambda x: torch.pow(x * x + 0.5, -1.5), lambda x: x**3, lambda x: x**2, lambda x: x**1, lambda x: x**0,
            lambda x: (x * x + 0.5) ** 0.5, lambda x: torch.sum(x), lambda x: torch.sum(x, dim=-1), lambda x: torch.mean(x),
            lambda x: torch.mean(x, 0, keepdim=True), lambda x: F.softmax(x, dim=-1), lambda x: torch.softmax(x, 0),
            lambda x: torch.cat(torch.split(x, [1, 3])), lambda x: torch.cat(torch.split(x, 3)), lambda x: x / 3,
            lambda x: torch.cat(torch.chunk(x, 2)[::-1], dim=0), lambda x: torch.tensor(2.0) * x - torch.tensor([3.0]),
            lambda x: F.dropout(x, 0.5, training=False), lambda x: torch.tensor(2.0) - x, lambda x: 2 / (x * x + 1),
            lambda x: torch.tensor(2.0) / (x * x + 1), lambda x: torch.rsub(x, 1), lambda x: torch.add(x, 1),
            lambda x: torch.pow(x, exponent=3), lambda x: torch.dropout(x, 0.5, train=False),
        ]  # fmt: skip
        width_of_1 = lambda y, x: y + 0 * x  # a sum is [] among tensors, and [1] among values
        self.of_vertex(nn.Module(), lambda v, x, h: [width_of_1(of(x), x) for of in functions])

    def test_of_two_values(self):
        functions = [
            torch.add, torch.sub, torch.subtract, torch.mul, torch.multiply, torch.maximum, torch.minimum,
            lambda x, y: torch.div(x, y * y + 0.5), lambda x, y: torch.true_divide(x, y * y + 0.5),
            lambda x, y: x / (y * y + 0.5), lambda x, y: torch.cat([x, y], -1), lambda x, y: torch.concat((x, y), dim=-1),
            lambda x, y: torch.maximum(x, x) + torch.minimum(y, 1 * y),  # each gets half
            # The greater's gradient is infinite.
            lambda x, y: x + torch.sqrt(torch.maximum(F.relu(-torch.exp(x)), -torch.exp(y))),
        ]  # fmt: skip
        self.of_vertex(nn.Module(), lambda v, x, h: [of(x, torch.tanh(2 * x)) for of in functions])

    def test_over_children(self):
        functions = [
            lambda x, h: torch.sum(torch.softmax(h, 0) * h, 0), lambda x, h: torch.sum(x * h, dim=-2),
            lambda x, h: torch.sum(torch.sum(h * h, -1, keepdim=True) * h, 0),
            lambda x, h: torch.sum(torch.mean(h * h, 1, keepdim=True) + 0 * h, 0), lambda x, h: torch.sum(h) + 0 * x,
            lambda x, h: torch.sum(torch.softmax(h, -1), 0), lambda x, h: torch.sum(x / h, 0),
            lambda x, h: torch.sum(torch.maximum(h, x) * torch.minimum(x, h), 0), lambda x, h: torch.sum(torch.log(h), 0),
            lambda x, h: torch.sum(torch.cat(torch.chunk(h, 2, -1)[::-1], -1), 0),
            lambda x, h: torch.sum(torch.cat(torch.split(h, 3, 1), 1), 0),
        ]  # fmt: skip
        self.of_vertex(nn.Module(), lambda v, x, h: [of(x, h) for of in functions])
        # A mean over no children is 0 here, and no number there.
        mean = lambda v, x, h: (torch.mean(h, 0) if isinstance(v, ucudnn.Vertex) or len(h) else torch.sum(h, 0))
        self.of_vertex(nn.Module(), lambda v, x, h: mean(v, x, h))

    def test_with_parameters(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.W, self.U = nn.Linear(WIDTH, 6), nn.Linear(WIDTH, WIDTH, bias=False)
                self.M, self.E = nn.Parameter(torch.randn(5, WIDTH)), nn.Embedding(5, WIDTH)
                self.b, self.g = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH))
                self.norms = nn.ModuleList([
                    nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, elementwise_affine=False),
                    nn.LayerNorm(WIDTH, eps=0.1)])  # fmt: skip
                for norm in self.norms:
                    for parameter in norm.parameters():
                        nn.init.normal_(parameter)
                self.register_buffer("fixed", torch.randn(WIDTH, dtype=torch.float64))

            def function(self, v, x, h):
                yield from (self.W(x), F.linear(x, self.W.weight, self.W.bias), self.M @ x, torch.mv(self.M, x))
                yield from (torch.matmul(self.M, x), self.E(v.pull_index("i")), torch.sum(self.U(h), 0))
                yield from (norm(x) for norm in self.norms)
                yield from (torch.sum(norm(h), 0) for norm in self.norms)
                yield from (x + self.b, self.b + x, x - self.b, self.b - x, x * self.g, self.g * x)
                yield from (self.g / (x * x + 1), torch.add(self.b, x), torch.mul(x, self.g), x * self.fixed)

        model = Model()
        self.of_vertex(model, lambda v, x, h: list(model.function(v, x, h)))

    def test_layer_norm_by_name(self):
        model = nn.Module()
        model.norm, model.plain = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH, 0.5, elementwise_affine=False)

        def function(v, x, h):
            if isinstance(v, ucudnn.Vertex):
                return v.layer_norm("norm", x), v.layer_norm("plain", x)
            return model.norm(x), model.plain(x)

        self.of_vertex(model, function)

    def test_inputs_come_by_name_or_in_order(self):
        net = ucudnn.VertexNet({}, {0: lambda v: v.push(y=v.pull("x", WIDTH) - v.pull("z", 1))})
        batch, x, z = ucudnn.Graphs([[[], []]]).batch([0]), torch.randn(2, WIDTH), torch.randn(2, 1)
        for y in (net(batch, x, z).y, net(batch, x, z=z).y, net(batch, z=z, x=x).y):
            self.assertTrue(y.equal(x - z))

    def test_attributes_are_named(self):
        seen = {}
        self.assertLessEqual({"Graphs", "VertexNet", "nn"}, set(dir(ucudnn)))

        def function(v):
            seen["states"] = dir(v.children())
            with self.assertRaisesRegex(AttributeError, "has no 'view'; it has chunk, exp, .*sum_elements, tanh, width"):
                v.children().h.view(2, 2)
            v.scatter(h=v.pull("x", WIDTH), c=v.pull("x", WIDTH))
            v.push(y=v.children().h.sum())

        ucudnn.VertexNet({"h": WIDTH, "c": WIDTH}, {"any": function})
        self.assertEqual(seen["states"], ["c", "h"])

    def test_empty_slots_leave_gradients_finite(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.W, self.g = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.randn(WIDTH))
                self.net = ucudnn.VertexNet({"h": WIDTH}, {2: self.vertex, 0: self.vertex}, self)

            def vertex(self, v):
                h = v.children().h
                y = torch.sum(self.W(torch.sqrt(h - 0.5)) + torch.sqrt(h - 0.5) * self.g, 0)
                y = y + torch.sum(self.W(torch.exp(2000 - 2000 * h)) + self.W(torch.log(h)), 0)
                v.push(y=y + torch.sum(self.W(1 / h) + self.W(h**-1.5), 0))
                v.scatter(h=1 + torch.sigmoid(v.pull("x", WIDTH)))

        graph = tree([], [-1, 0], [1, 0], [-1, 2])
        x = torch.randn(4, WIDTH, dtype=torch.float64, requires_grad=True)
        model = Model()
        self.hold(model, model.vertex, graph, {"x": x}, {"h": WIDTH})

    def test_a_step_refuses_what_requires_no_gradient(self):
        model = nn.Module()
        model.W = nn.Linear(WIDTH, 3)
        model.register_buffer("fixed", torch.ones(3))
        vertex = lambda v: v.push(y=model.W(v.pull("x", WIDTH)) * model.fixed)
        net = ucudnn.VertexNet({}, {0: vertex}, model, loss="y")
        batch, x = ucudnn.Graphs([[[]]]).batch([0]), torch.randn(1, WIDTH)
        with self.assertRaisesRegex(ucudnn.Refused, "^step: 'fixed' requires no gradient, and a step writes all"):
            net.step(batch, x=x, labels=torch.tensor([1]), lr=0.1)
        self.assertTrue(model.fixed.equal(torch.ones(3)))

    def test_the_tutorials_nets(self):
        page = (ROOT / "docs/dynamic-nets.md").read_text()
        classes = {"torch": torch, "ucudnn": ucudnn}
        for block in BLOCK.findall(page):
            if "class AttentiveTreeGRU" in block or "class SLSTM" in block:
                exec(block.split("\n\nmodel = ")[0], classes)
        random = seeded("tutorial")
        for name, states, graph in [
            ("AttentiveTreeGRU", ["h"], random_tree(random, 9, CHILDREN)),
            ("SLSTM", ["h", "c", "n", "m"], tree([], *([step] for step in range(11)))),
        ]:
            with self.subTest(name):
                model = classes[name](5, 6)
                for parameter in model.parameters():
                    nn.init.normal_(parameter, std=0.7)
                x = torch.randn(len(graph.children), 5, dtype=torch.float64, requires_grad=True)
                self.hold(model, model.vertex, graph, {"x": x}, dict.fromkeys(states, 6))


if __name__ == "__main__":
    unittest.main()
