"""Static batches: set to other graphs, they compute what plain batches do, with zeros behind the last row."""

import copy
import pickle
import unittest

import torch
import ucudnn
from common import as_graphs, random_tree, seeded
from torch.utils.checkpoint import checkpoint


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

    def step(self, run, batch, x, dh, parameters=None, between=()):
        """Outputs and gradients. Between the runs the batch is set to these graphs."""
        parameters = list(run.parameters() if parameters is None else parameters)
        x = x.detach().requires_grad_()
        h = run(batch, x)[0]
        for ids in between:
            batch.set(ids)
        return [h.detach(), *torch.autograd.grad(h, (x, *parameters), dh)]

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

    def test_has_room_for_a_graph_several_times(self):
        graphs = trees(10)
        largest = int(graphs._first_vertex.diff().argmax())
        for count in (2, 13):
            plain, static = graphs.batch([largest] * count), graphs.batch([largest] * count, static=True)
            self.assertEqual(static.vertices.tolist(), plain.vertices.tolist())
            static.set(range(count % 10))
        vertices = len(graphs.batch([largest] * 2).vertices)
        self.assertEqual(graphs.batch([largest] * 2, static=vertices).most_vertices, vertices)

    REPLACED = "the batch was set to other graphs since this run forward.*: run backward before set"

    def running(self):
        """A net, a static batch of two graphs, and its input."""
        torch.manual_seed(1)
        static = trees(10).batch([0, 1], static=True)
        model = ucudnn.nn.NaryTreeLSTM(3, 5).double()
        return model, static, torch.randn(static.most_vertices, 3).double()

    def test_a_run_backward_of_graphs_that_were_replaced_is_refused(self):
        model, static, x = self.running()
        dh = torch.randn(static.most_vertices, 5).double()
        expected = self.step(model, static, x, dh)
        again = lambda batch, x: checkpoint(model, batch, x, use_reentrant=False)
        for name, run in (("at once", model), ("computed again", again)):
            with self.subTest(name):
                h = run(static, x)[0]
                static.set([1, 0])
                with self.assertRaisesRegex(ucudnn.Refused, self.REPLACED):
                    h.backward(dh)
                # The same graphs again are no others, nor are those that came back.
                static.set([0, 1])
                for between in ([], [[0, 1]], [[2], [0, 1]]):
                    found = self.step(run, static, x, dh, model.parameters(), between)
                    for one, other in zip(found, expected, strict=True):
                        self.assertTrue(torch.equal(one, other))

    def test_runs_of_several_graphs_do_not_share_a_run_backward(self):
        model, static, x = self.running()
        value = 0
        for ids in ([0, 1], [2], [1]):
            static.set(ids)
            value = value + model(static, x)[0].sum()
        with self.assertRaisesRegex(ucudnn.Refused, self.REPLACED):
            value.backward()

    def test_takes_each_graph_that_it_has_vertices_for(self):
        # Chains: one vertex more than slots, whose ratio no float has.
        chain = lambda length: [[place - 1] if place else [] for place in range(length)]
        graphs = ucudnn.Graphs([chain(length) for length in range(1, 300)])
        for number in range(len(graphs)):
            static = graphs.batch([0], static=number + 1)
            static.set([number])
            self.assertEqual(len(static.vertices), number + 1)

    def test_a_set_that_one_net_refuses_changes_no_net(self):
        graphs = ucudnn.Graphs([[[], [], [0, 1]], [[], [0], [1]]])
        static = graphs.batch([0], static=True)
        states = lambda v: (v.children().s.sum() + v.pull("x", 1)).tanh()
        add = lambda v: (s := states(v), v.scatter(s=s), v.push(y=s))
        pair = lambda v: (s := v.gather(0).s + v.gather(1).s, v.scatter(s=s), v.push(y=s))
        leaf = lambda v: (s := v.pull("x", 1), v.scatter(s=s), v.push(y=s))
        any_net, of_pairs = ucudnn.VertexNet({"s": 1}, {"any": add}), ucudnn.VertexNet({"s": 1}, {0: leaf, 2: pair})
        x = torch.tensor([[1.0], [2.0], [4.0]])
        before = [net(static, x=x).y for net in (any_net, of_pairs)]
        with self.assertRaisesRegex(ucudnn.Refused, "has 1 slots"):
            static.set([1])
        for net, its in zip((any_net, of_pairs), before, strict=True):
            self.assertTrue(torch.equal(net(static, x=x).y, its))

    def test_copies_are_static_batches_too(self):
        model, static, x = self.running()
        dh = torch.randn(static.most_vertices, 5).double()
        expected = {ids: (static.set(ids), self.step(model, static, x, dh))[1] for ids in ((3,), (0, 1))}
        self.assertIs(copy.copy(static), static)
        for name, copied in (("deep", copy.deepcopy), ("pickled", lambda batch: pickle.loads(pickle.dumps(batch)))):
            with self.subTest(name):
                other = copied(static)
                self.assertIs(type(other), ucudnn.StaticBatch)
                self.assertEqual(other.most_vertices, static.most_vertices)
                for each in (other, copied(other)):
                    self.assertEqual(each.vertices.tolist(), static.vertices.tolist())
                h = model(static, x)[0]
                # Neither follows the other.
                other.set([3])
                h.backward(dh)
                for batch, ids in ((other, (3,)), (static, (0, 1))):
                    for one, its in zip(self.step(model, batch, x, dh), expected[ids], strict=True):
                        self.assertTrue(torch.equal(one, its))
                with self.assertRaisesRegex(ucudnn.Refused, "made for at most"):
                    other.set(range(3))


if __name__ == "__main__":
    unittest.main()
