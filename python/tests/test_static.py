"""Static batches: set to other graphs, they compute what plain batches do, with zeros behind the last row."""

import unittest

import torch
import ucudnn
from common import as_graphs, random_tree, seeded


def trees(count):
    random = seeded("static")
    return as_graphs([random_tree(random, random.randint(1, 9)) for _ in range(count)])


def padded(tensor, rows):
    return torch.cat([tensor, tensor.new_full((rows - len(tensor), *tensor.shape[1:]), torch.nan)])


class Static(unittest.TestCase):
    def test_computes_what_plain_batches_do(self):
        torch.manual_seed(1)
        model, graphs, random = ucudnn.nn.NaryTreeLSTM(3, 5).double(), trees(30), seeded("ids")
        static = graphs.batch(range(4), static=True)
        rows = static.most_vertices
        for _ in range(10):
            ids = random.sample(range(30), random.randint(1, 4))
            static.set(ids)
            batch = graphs.batch(ids)
            self.assertEqual(static.vertices.tolist(), batch.vertices.tolist())
            x, dh = torch.randn(len(batch.rows), 3).double(), torch.randn(len(batch.vertices), 5).double()
            found = self.step(model, static, padded(x, rows), padded(dh, rows))
            expected = self.step(model, batch, x, dh)
            for one, other in zip(found, expected, strict=True):
                self.assertTrue(torch.equal(one[: len(other)], other))
                self.assertFalse(one[len(other) :].any())

    def step(self, model, batch, x, dh):
        model.zero_grad()
        x.requires_grad_()
        h = model(batch, x)[0]
        h.backward(dh)
        return [h.detach(), x.grad, *(parameter.grad.clone() for parameter in model.parameters())]

    def test_refuses_more_than_it_was_made_for(self):
        graphs = trees(10)
        by_size = graphs._first_vertex.diff().argsort().tolist()
        static = graphs.batch(by_size[:2], static=int(graphs._first_vertex.diff()[by_size[:2]].sum()))
        before = static.vertices.tolist()
        for ids, text in ((by_size[-2:], "vertices; it was made for at most"), (by_size[:3], "3 graphs; it was made for at most 2|net was made for at most 2"),
                          ([10], "0 to 9 are accepted"), ([], "at least one graph")):  # fmt: skip
            with self.assertRaisesRegex(ucudnn.Refused, text):
                static.set(ids)
            self.assertEqual(static.vertices.tolist(), before)
        for static in (0, -1, 1.5, "all"):
            with self.assertRaisesRegex(ucudnn.Refused, "a number of vertices"):
                graphs.batch([0], static=static)
        with self.assertRaisesRegex(ucudnn.Refused, "it was made for at most 1"):
            graphs.batch([0, 1], static=1)


if __name__ == "__main__":
    unittest.main()
