"""`VertexNet.step`: a whole step of training in one call, against the same by parts in torch."""

import copy
import unittest

import torch
import torch.nn.functional as F
import ucudnn
from common import as_graphs, error, random_tree, seeded


class Scorer(torch.nn.Module):
    """Scores of three classes at each vertex of a tree whose words are at the leaves."""

    def __init__(self, loss="scores"):
        super().__init__()
        self.W, self.U = torch.nn.Linear(5, 4), torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 3)

        def vertex(v):
            s = (v.linear("W", v.pull("x", 5)) + v.linear("U", v.children().s).sum()).tanh()
            v.scatter(s=s)
            v.push(scores=v.linear("head", s), s=s)

        leaf = lambda v: (s := v.linear("W", v.pull("x", 5)).tanh(), v.scatter(s=s), v.push(scores=v.linear("head", s)))
        self.net = ucudnn.VertexNet({"s": 4}, {0: leaf, "any": vertex}, self, loss=loss)


def setting(dtype=torch.float64):
    random = seeded("steps")
    model = Scorer().to(dtype)
    graphs = as_graphs([random_tree(random, random.randint(2, 7), 3) for _ in range(5)])
    batch = graphs.batch([0, 3, 1, 4, 2])
    x = torch.randn(len(batch.rows), 5, dtype=dtype)
    return model, batch, x, torch.randint(-1, 3, (len(batch.vertices),))


def by_parts(model, batch, x, labels, lr, weight_decay):
    """Forward, loss, backward and torch's gradient descent. Returns the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=weight_decay)
    value = F.cross_entropy(model.net(batch, x=x).scores, labels, ignore_index=-1)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return value.detach()


class Steps(unittest.TestCase):
    # Numbers that float holds, since the library takes the two as floats.
    LR, DECAY = 0.375, 0.03125

    def test_a_step_is_forward_loss_backward_and_gradient_descent(self):
        for dtype, bound in ((torch.float64, 1e-13), (torch.float32, 1e-6)):
            for decay in (0.0, self.DECAY):
                with self.subTest(dtype=dtype, decay=decay):
                    model, batch, x, labels = setting(dtype)
                    twin = copy.deepcopy(model)
                    for _ in range(5):
                        value = model.net.step(batch, x=x, labels=labels, lr=self.LR, weight_decay=decay)
                        expected = by_parts(twin, batch, x, labels, self.LR, decay)
                        self.assertIsInstance(value, float)
                        self.assertLess(abs(value - float(expected)), 1e-6 * float(expected))
                    for one, its in zip(model.parameters(), twin.parameters(), strict=True):
                        self.assertLess(error(one, its), bound)

    def test_narrow_types_step_too(self):
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                model, batch, x, labels = setting(torch.float32)
                model, x = model.to(dtype), x.to(dtype)
                twin = copy.deepcopy(model).double()
                before = copy.deepcopy(model)
                value = model.net.step(batch, x=x, labels=labels, lr=self.LR)
                expected = by_parts(twin, batch, x.double(), labels, self.LR, 0.0)
                eps = torch.finfo(dtype).eps
                self.assertLess(abs(value - float(expected)), eps * float(expected))
                for one, its, old in zip(model.parameters(), twin.parameters(), before.parameters(), strict=True):
                    self.assertEqual(one.dtype, dtype)
                    self.assertFalse(torch.equal(one, old))
                    self.assertLess(error(one, its), eps)

    def test_labels_may_be_of_any_type_of_integers(self):
        results = []
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
            model, batch, x, labels = setting()
            value = model.net.step(batch, x=x, labels=labels.to(dtype), lr=self.LR)
            results.append((value, [parameter.tolist() for parameter in model.parameters()]))
        self.assertTrue(all(result == results[0] for result in results))

    def test_a_vertex_without_a_label_is_not_in_the_loss(self):
        model, batch, x, labels = setting()
        labels[:] = -1
        labels[3] = 2
        expected = F.cross_entropy(model.net(batch, x=x).scores[3:4], torch.tensor([2]))
        value = model.net.step(batch, x=x, labels=labels, lr=0.0)
        self.assertLess(abs(value - float(expected)), 1e-6)

    def test_without_any_label_nothing_is_learnt(self):
        model, batch, x, labels = setting()
        before = [parameter.clone() for parameter in model.parameters()]
        value = model.net.step(batch, x=x, labels=torch.full_like(labels, -1), lr=self.LR)
        self.assertEqual(value, 0.0)
        for one, its in zip(model.parameters(), before, strict=True):
            self.assertTrue(torch.equal(one, its))

    def test_a_step_learns_without_a_trace_in_autograd(self):
        model, batch, x, labels = setting()
        first = model.net.step(batch, x=x, labels=labels, lr=self.LR)
        for _ in range(200):
            last = model.net.step(batch, x=x, labels=labels, lr=self.LR)
        self.assertLess(last, first / 2)
        self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))
        self.assertTrue(all(parameter.requires_grad and parameter.is_leaf for parameter in model.parameters()))

    def test_autograd_notices_that_a_step_wrote_the_parameters(self):
        model, batch, x, labels = setting()
        value = model.net(batch, x=x).scores.sum()
        model.net.step(batch, x=x, labels=labels, lr=self.LR)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            value.backward()

    def test_a_refused_step_writes_nothing(self):
        model, batch, x, labels = setting()
        before = [parameter.clone() for parameter in model.parameters()]
        labels[0] = 3
        with self.assertRaises(ucudnn.Refused) as refused:
            model.net.step(batch, x=x, labels=labels, lr=self.LR)
        self.assertEqual(str(refused.exception), "vertex 0 has the label 3; -1 to 2 are accepted")
        for one, its in zip(model.parameters(), before, strict=True):
            self.assertTrue(torch.equal(one, its))


if __name__ == "__main__":
    unittest.main()
