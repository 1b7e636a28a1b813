"""Random nets over random graphs, against an interpreter of their text in torch's float64 autograd."""

import unittest

import torch
from common import Interpreter, RandomNet, random_graph, random_graphs, seeded, with_rows
from ucudnn.vertex import OPERATIONS

NETS = 300
#: Farther from the kinks of relu and max than rounding moves a number.
OFF_KINKS = 1e-9
BOUND = 1e-10


class Case:
    """A net, graphs, and a batch of them."""

    def __init__(self, number):
        random = seeded("net", number)
        has_kinds = random.random() < 0.3
        arities = random.choice(RandomNet.ARITIES_OF_KINDS if has_kinds else RandomNet.ARITIES)
        self.model = RandomNet(random, arities)
        way = random.choice([None, "leaves", "array"])
        plain = [random_graph(random, arities, has_kinds) for _ in range(random.randint(1, 4))]
        self.plain = [with_rows(random, graph, way) for graph in plain]
        self.ids = [random.randrange(len(plain)) for _ in range(random.randint(1, 4))]
        self.batch = random_graphs(random, self.plain, way).batch(self.ids)
        self.inputs = self.model.inputs(len(self.batch.rows))
        # Not all gradients are wanted in each case.
        for tensor in (*self.model.used, *self.inputs.values()):
            if tensor.is_floating_point():
                tensor.requires_grad_(random.random() < 0.9)
        #: Of each output, the gradient; None for one that the loss does not have.
        widths = [self.model.pushed[name] for name in self.model.outputs]
        count = len(self.batch.vertices)
        self.seeds = [torch.randn(count, width, dtype=torch.float64) if random.random() < 0.9 else None
                      for width in widths]  # fmt: skip

    def gradients(self, outputs):
        """The gradients of all tensors that require them; zeros for those that the outputs do not reach."""
        tensors = [tensor for tensor in (*self.model.used, *self.inputs.values()) if tensor.requires_grad]
        pairs = zip(outputs, self.seeds, strict=True)
        loss = sum((output * seed).sum() for output, seed in pairs if seed is not None)
        if not tensors or not isinstance(loss, torch.Tensor) or not loss.requires_grad:
            return [torch.zeros_like(tensor) for tensor in tensors]
        found = torch.autograd.grad(loss, tensors, allow_unused=True)
        return [torch.zeros_like(tensor) if gradient is None else gradient
                for tensor, gradient in zip(tensors, found, strict=True)]  # fmt: skip

    def interpreted(self):
        return Interpreter(self.model.net.text(), [self.plain[id] for id in self.ids], self.model.used,
                           [self.inputs[name] for name in self.model.names])  # fmt: skip


class RandomNets(unittest.TestCase):
    def hold(self, found, expected, what):
        # Where numbers cancel, as in the gradient of a softmax's sum, only rounding is left: of numbers about 1.
        scale = max(float(expected.norm()), 1e-3)
        distance = float((found - expected).norm())
        self.assertLessEqual(distance, BOUND * scale, what)  # not for nan

    def test_outputs_and_gradients_are_those_of_the_text(self):
        names, drawn_again = set(), 0
        for number in range(NETS):
            case = Case(number)
            expected = case.interpreted()
            if expected.nearest_kink < OFF_KINKS:
                drawn_again += 1
                continue
            names |= expected.names
            text = case.model.net.text()
            with self.subTest(number=number, text=text, graphs=case.plain, ids=case.ids):
                outputs = case.model.net(case.batch, **case.inputs)
                self.assertEqual(outputs._fields, tuple(case.model.outputs))
                pairs = zip(outputs, expected.outputs, strict=True)
                for output, (found, its) in enumerate(pairs):
                    self.hold(found, its, f"output {output}")
                pairs = zip(case.gradients(outputs), case.gradients(expected.outputs), strict=True)
                for place, (found, its) in enumerate(pairs):
                    self.hold(found, its, f"gradient {place}")
                with torch.no_grad():
                    for found, its in zip(case.model.net(case.batch, **case.inputs), expected.outputs, strict=True):
                        self.hold(found, its, "without gradients")
        self.assertEqual(names, set(OPERATIONS))
        self.assertLess(drawn_again, NETS // 20)


if __name__ == "__main__":
    unittest.main()
