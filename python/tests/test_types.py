"""Half, bfloat16 and autocast."""

import copy
import unittest

import torch
import ucudnn
from common import as_graphs, error, random_tree, seeded
from ucudnn import nn

NARROW = (torch.float16, torch.bfloat16)


def tree_batch(random, count):
    trees = [random_tree(random, random.randint(1, 9)) for _ in range(count)]
    return as_graphs(trees).batch(range(count))


def rounded(model, dtype):
    """A copy with its parameters in the type, and one with the same numbers in double."""
    narrow = copy.deepcopy(model).to(dtype)
    return narrow, copy.deepcopy(narrow).double()


def results(model, batch, x, weights):
    h, _ = model(batch, x)
    return [h, *torch.autograd.grad((h * weights.to(h.dtype)).sum(), (x, *model.parameters()))]


class Types(unittest.TestCase):
    def test_results_are_double_s_within_the_type_s_rounding(self):
        random = seeded("narrow")
        batch = tree_batch(random, 10)
        for dtype in NARROW:
            narrow, double = rounded(nn.NaryTreeLSTM(24, 20), dtype)
            x = torch.randn(len(batch.rows), 24).to(dtype)
            weights = torch.randn(len(batch.vertices), 20).to(dtype)
            ours = results(narrow, batch, x.requires_grad_(), weights)
            exact = results(double, batch, x.detach().double().requires_grad_(), weights)
            for place, (found, expected) in enumerate(zip(ours, exact, strict=True)):
                with self.subTest(dtype=dtype, place=place):
                    self.assertEqual(found.dtype, dtype)
                    # Each state is rounded once, by half of eps at most, and each result once more.
                    self.assertLessEqual(error(found, expected), torch.finfo(dtype).eps)

    def test_one_vertex_is_rounded_once(self):
        batch = ucudnn.Graphs([[[]]] * 40).batch(range(40))
        for dtype in NARROW:
            with self.subTest(dtype=dtype):
                model = nn.ChildSumTreeLSTM(24, 20)
                narrow, double = rounded(model, dtype)
                x = torch.randn(40, 24).to(dtype)
                for found, expected in zip(narrow(batch, x), double(batch, x.double()), strict=True):
                    # Half of the distance to the next number, and float's rounding of a sum of 24.
                    half = expected.abs().clamp(min=torch.finfo(dtype).tiny) * torch.finfo(dtype).eps / 2
                    most = half + 24 * torch.finfo(torch.float32).eps
                    self.assertLessEqual(float(((found.double() - expected).abs() / most).max()), 1)

    def test_nothing_else_of_a_type_is_accepted(self):
        model, batch = nn.NaryTreeLSTM(3, 2), ucudnn.Graphs([[[]]]).batch([0])
        with self.assertRaises(ucudnn.Refused) as refused:
            model(batch, torch.ones(1, 3, dtype=torch.float64))
        self.assertEqual(str(refused.exception), "x is of torch.float64; torch.float32 is accepted here")
        with self.assertRaises(ucudnn.Refused) as refused:
            model.to(torch.complex64)(batch, torch.ones(1, 3))
        types = "float32, float64, float16, bfloat16 are accepted"
        self.assertEqual(str(refused.exception), f"W_iou.weight is of torch.complex64; {types}")


class Autocast(unittest.TestCase):
    def test_it_runs_what_a_cast_by_hand_runs(self):
        random = seeded("autocast")
        batch = tree_batch(random, 6)
        for dtype in NARROW:
            with self.subTest(dtype=dtype):
                model = nn.NaryTreeLSTM(8, 6)
                x, weights = torch.randn(len(batch.rows), 8), torch.randn(len(batch.vertices), 6)
                narrow, _ = rounded(model, dtype)
                by_hand = results(narrow, batch, x.to(dtype).requires_grad_(), weights)
                x.requires_grad_()
                with torch.autocast("cpu", dtype=dtype):
                    h, _ = model(batch, x)
                self.assertEqual(h.dtype, dtype)
                found = torch.autograd.grad((h * weights.to(dtype)).sum(), (x, *model.parameters()))
                for one, its in zip((h, *found), by_hand, strict=True):
                    self.assertTrue(torch.equal(one.to(dtype), its))
                self.assertEqual({gradient.dtype for gradient in found}, {torch.float32})

    def test_it_casts_float_alone(self):
        model, batch = nn.NaryTreeLSTM(3, 2).double(), ucudnn.Graphs([[[]]]).batch([0])
        x = torch.ones(1, 3, dtype=torch.float64)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(model(batch, x)[0].dtype, torch.float64)
            with torch.autocast("cpu", enabled=False):
                self.assertEqual(nn.NaryTreeLSTM(3, 2)(batch, x.float())[0].dtype, torch.float32)

    def test_what_comes_in_the_type_already_is_accepted(self):
        model, batch = nn.NaryTreeLSTM(3, 2), ucudnn.Graphs([[[]]]).batch([0])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h, _ = model(batch, torch.nn.Linear(3, 3)(torch.ones(1, 3)))
        self.assertEqual(h.dtype, torch.bfloat16)


if __name__ == "__main__":
    unittest.main()
