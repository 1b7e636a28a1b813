"""Graphs and batches: their forms, parts, and what a batch says about itself."""

import importlib.util
import unittest

import torch
import ucudnn
from common import as_graphs, random_graph, random_graphs, random_tree, seeded, with_rows

MOST_SLOTS = 4


class Fingerprint(torch.nn.Module):
    """A net whose outputs tell graphs apart: each slot has a matrix of its own, and each row counts."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.W = torch.nn.Linear(2, 3)
        self.U = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(MOST_SLOTS))

        def function(v):
            of_children = (v.linear(f"U.{slot}", v.gather(slot).h) for slot in range(v.children_count))
            h = (v.linear("W", v.pull("x", 2)) + sum(of_children)).tanh()
            v.scatter(h=h)
            v.push(h=h)

        self.net = ucudnn.VertexNet({"h": 3}, {slots: function for slots in range(MOST_SLOTS + 1)}, self)
        self.double()

    def forward(self, batch):
        torch.manual_seed(8)
        return self.net(batch, x=torch.randn(1000, 2, dtype=torch.float64)[: len(batch.rows)]).h

    def of(self, graphs):
        return self(graphs.batch(range(len(graphs))))


def random_dag(random):
    """A graph whose vertices have up to four children without empty slots, in any order of numbers."""
    graph = random_graph(random, list(range(MOST_SLOTS + 1)), False)
    return graph._replace(children=[[child for child in row if child >= 0] for row in graph.children])


def sizes(graphs):
    return len(graphs), graphs.vertices, graphs.rows


class Forms(unittest.TestCase):
    def setUp(self):
        self.fingerprint = Fingerprint()

    def test_edges_make_the_same_graphs(self):
        random = seeded("edges")
        for _ in range(100):
            plain = [random_dag(random) for _ in range(random.randint(1, 5))]
            way = random.choice([None, "leaves", "array"])
            plain = [with_rows(random, graph, way) for graph in plain]
            edges, first = [], 0
            for graph in plain:
                edges += [(first + child, first + parent) for parent, row in enumerate(graph.children) for child in row]
                first += len(graph.children)
            random.shuffle(edges)
            # A vertex's children are in the order of its edges.
            of_parent = lambda parent: [child for child, its in edges if its == parent]
            ordered, first = [], 0
            for graph in plain:
                count = len(graph.children)
                rows = [[child - first for child in of_parent(first + vertex)] for vertex in range(count)]
                ordered.append(graph._replace(children=rows))
                first += count
            counts = [len(graph.children) for graph in plain]
            rows = way if way in (None, "leaves") else [row for graph in plain for row in graph.rows]
            index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
            for edge_index in (index, index.int(), index.tolist()):
                found = ucudnn.Graphs.from_edges(edge_index, counts, rows=rows)
                expected = as_graphs(ordered)
                self.assertEqual(sizes(found), sizes(expected))
                self.assertTrue(torch.equal(self.fingerprint.of(found), self.fingerprint.of(expected)))

    def test_all_forms_are_the_same_graphs(self):
        random = seeded("forms")
        for _ in range(100):
            arities = random.choice([[0, 2], [0, 1], [0, 1, 2, 3, 4], [0, 4]])
            plain = [random_graph(random, arities, False) for _ in range(random.randint(1, 4))]
            way = random.choice([None, "leaves", "array"])
            plain = [with_rows(random, graph, way) for graph in plain]
            found, expected = random_graphs(random, plain, way), as_graphs(plain)
            self.assertTrue(torch.equal(self.fingerprint.of(found), self.fingerprint.of(expected)))

    def test_arrays_may_be_of_any_type_of_integers(self):
        expected = self.fingerprint.of(ucudnn.Graphs([[[-1, -1], [-1, -1], [0, 1]]]))
        table = torch.tensor([[-1, -1], [-1, -1], [0, 1]])
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
            for children in (table.to(dtype), table.to(dtype).T.contiguous().T):
                self.assertTrue(torch.equal(self.fingerprint.of(ucudnn.Graphs([children])), expected))
                self.assertTrue(torch.equal(self.fingerprint.of(ucudnn.Graphs(children, counts=[3])), expected))
        for children in ([((-1, -1), (-1, -1), (0, 1))], ([[], [], [0, 1]],), iter([[[], [], [0, 1]]])):
            self.assertTrue(torch.equal(self.fingerprint.of(ucudnn.Graphs(children)), expected))

    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "NumPy is not there")
    def test_arrays_of_numpys_may_be_in_any_order(self):
        import numpy

        table = numpy.array([[-1, -1], [-1, -1], [0, 1]])
        graphs = ucudnn.Graphs([table[:2], table])
        for of_type in (">i4", "<i8", ">u2", "int8"):
            for ids in (numpy.array([0, 1, 0], of_type), numpy.array([0, 1, 0], of_type)[::-1]):
                with self.subTest(of_type, strides=ids.strides):
                    self.assertEqual(graphs.batch(ids).vertices.tolist(), graphs.batch([0, 1, 0]).vertices.tolist())
        self.assertEqual(ucudnn.Graphs([table[:, ::-1]]).batch([0]).roots.tolist(), [2])
        with self.assertRaisesRegex(ucudnn.Refused, "ids: integers are accepted, not torch.float64"):
            graphs.batch(numpy.array([0.0]))

    def test_a_row_of_minus_one_alone_is_a_leaf_in_an_array(self):
        kinds = ucudnn.Graphs([[[-1, -1], [0, -1]]])
        self.assertEqual(kinds.rows, 2)
        self.assertEqual(ucudnn.Graphs([[[-1, -1], [0, -1]]], rows="leaves").rows, 1)
        # In a sequence whose rows differ in length, it is a vertex with empty slots.
        self.assertEqual(ucudnn.Graphs([[[], [-1, -1], [0, 1, -1]]], rows="leaves").rows, 1)

    def test_no_graphs_are_graphs(self):
        of_arrays = ucudnn.Graphs(torch.zeros(0, 2), counts=[]), ucudnn.Graphs.from_edges(torch.zeros(2, 0), [])
        for none in (ucudnn.Graphs([]), *of_arrays):
            self.assertEqual(sizes(none), (0, 0, 0))
            self.assertEqual(len(none.select([])), 0)
            for static in (False, True, 5):
                with self.assertRaisesRegex(ucudnn.Refused, "at least one graph"):
                    none.batch([], static=static)
        self.assertEqual(len(ucudnn.Graphs([[[], []]], rows=[-1, -1]).batch([0]).rows), 0)

    def test_vertices_need_not_be_connected_and_may_be_many(self):
        many = ucudnn.Graphs([[[]] * 1000, [[]] + [[vertex] for vertex in range(2000)]])
        batch = many.batch([1, 0])
        found = self.fingerprint.net(batch, x=torch.ones(3001, 2, dtype=torch.float64)).h
        self.assertTrue(torch.equal(found[2001:], found[:1].expand(1000, 3)))


class Batches(unittest.TestCase):
    def test_a_batch_tells_its_vertices_rows_offsets_and_roots(self):
        random = seeded("batches")
        for _ in range(200):
            arities = random.choice([["any"], [0, 2], [0, 3, 1]])
            way = random.choice([None, "leaves", "array"])
            plain = [random_graph(random, arities, False) for _ in range(random.randint(1, 5))]
            plain = [with_rows(random, graph, way) for graph in plain]
            graphs = random_graphs(random, plain, way)
            ids = [random.randrange(len(plain)) for _ in range(random.randint(1, 7))]
            vertices, rows, offsets, roots = [], [], [0], []
            for id in ids:
                before, own = plain[:id], plain[id]
                first = sum(len(graph.children) for graph in before)
                first_row = sum(graph.row_count for graph in before)
                vertices += range(first, first + len(own.children))
                rows += range(first_row, first_row + own.row_count)
                children = {child for row in own.children for child in row}
                roots += [offsets[-1] + vertex for vertex in range(len(own.children)) if vertex not in children]
                offsets.append(offsets[-1] + len(own.children))
            for given in (ids, torch.tensor(ids), torch.tensor(ids, dtype=torch.int16), tuple(ids)):
                batch = graphs.batch(given)
                self.assertEqual(batch.vertices.tolist(), vertices)
                self.assertEqual(batch.rows.tolist(), rows)
                self.assertEqual(batch.offsets.tolist(), offsets)
                self.assertEqual(batch.roots.tolist(), roots)
                self.assertEqual(len(batch), len(ids))
                self.assertEqual(repr(batch), f"<a batch of {len(ids)} graphs, {len(vertices)} vertices>")
            self.assertEqual(len(graphs), len(plain))
            self.assertEqual(graphs.vertices, sum(len(graph.children) for graph in plain))
            self.assertEqual(graphs.rows, sum(graph.row_count for graph in plain))
            self.assertEqual(repr(graphs), f"<{len(plain)} graphs of {graphs.vertices} vertices>")
            for tensor in (batch.vertices, batch.rows, batch.offsets, batch.roots):
                self.assertEqual((tensor.dtype, tensor.device.type), (torch.int64, "cpu"))

    def test_selected_graphs_are_those_graphs(self):
        random, fingerprint = seeded("select"), Fingerprint()
        for _ in range(100):
            way = random.choice([None, "leaves", "array"])
            plain = [random_graph(random, list(range(MOST_SLOTS + 1)), False) for _ in range(random.randint(1, 5))]
            plain = [with_rows(random, graph, way) for graph in plain]
            graphs = random_graphs(random, plain, way)
            ids = [random.randrange(len(plain)) for _ in range(random.randint(1, 6))]
            selected, alone = graphs.select(ids), as_graphs([plain[id] for id in ids])
            self.assertEqual(sizes(selected), sizes(alone))
            self.assertTrue(torch.equal(fingerprint.of(selected), fingerprint.of(alone)))
            self.assertTrue(torch.equal(fingerprint(graphs.batch(ids)), fingerprint.of(alone)))
            again = [random.randrange(len(ids)) for _ in range(3)]
            twice = fingerprint(selected.select(again).batch([2, 0]))
            self.assertTrue(torch.equal(twice, fingerprint(graphs.batch([ids[again[2]], ids[again[0]]]))))

    def test_kinds_stay_with_their_vertices(self):
        functions = [(0, lambda v: v.push(y=v.pull("x", 1) * 2)), ("any", lambda v: v.push(y=v.pull("x", 1) * 3)),
                     (2, lambda v: v.push(y=v.pull("x", 1) * 5))]  # fmt: skip
        net = ucudnn.VertexNet({}, functions)
        graphs = ucudnn.Graphs([[[], [], [0, 1]], [[], [0], [1, 0], []]], kinds=[0, 1, 2, 1, 1, 1, 0])
        factors = [[2, 3, 5], [3, 3, 3, 2]]
        for ids in ([0], [1], [1, 0, 1]):
            expected = [factor for id in ids for factor in factors[id]]
            for batch in (graphs.batch(ids), graphs.select(ids).batch(range(len(ids)))):
                self.assertEqual(net(batch, x=torch.ones(len(expected), 1)).y.flatten().tolist(), expected)

    def test_a_graph_in_a_batch_gives_what_it_gives_alone(self):
        random, fingerprint = seeded("alone"), Fingerprint()
        plain = [random_tree(random, random.randint(1, 9), MOST_SLOTS) for _ in range(6)]
        graphs = as_graphs(plain)
        words = torch.randn(graphs.rows, 2, dtype=torch.float64)
        run = lambda batch: fingerprint.net(batch, x=words[batch.rows]).h
        whole = graphs.batch([4, 2, 2, 0, 5])
        found = run(whole)
        for place, id in enumerate([4, 2, 2, 0, 5]):
            part = found[whole.offsets[place] : whole.offsets[place + 1]]
            torch.testing.assert_close(part, run(graphs.batch([id])), rtol=1e-13, atol=1e-13)

    def test_numbers_of_more_than_64_bits_are_refused(self):
        for number in (2**63, -(2**63) - 1, 2**64):
            with self.assertRaisesRegex(ucudnn.Refused, "^ids: no array of integers: "):
                ucudnn.Graphs([[[]]]).batch([0, number])

    def test_the_callers_arrays_may_change_afterwards(self):
        fingerprint = Fingerprint()
        children, counts, rows = torch.tensor([[-1, -1], [0, -1], [1, 0]]), torch.tensor([3]), torch.tensor([0, 1, 2])
        graphs = ucudnn.Graphs(children, counts=counts, rows=rows)
        expected = fingerprint(graphs.batch([0, 0]))
        for tensor in (children, counts, rows):
            tensor.fill_(0)
        self.assertTrue(torch.equal(fingerprint(graphs.batch([0, 0])), expected))

    def test_the_numbers_of_a_batch_may_change_before_it_runs(self):
        graphs = ucudnn.Graphs([[[], [0]], [[], [], [0, 1]]])
        ids = torch.tensor([1, 0])
        batch = graphs.batch(ids)
        ids.copy_(torch.tensor([0, 1]))
        fingerprint = Fingerprint()
        self.assertTrue(torch.equal(fingerprint(batch), fingerprint(graphs.batch([1, 0]))))
        self.assertEqual(batch.roots.tolist(), [2, 4])


if __name__ == "__main__":
    unittest.main()
