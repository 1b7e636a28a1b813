"""The nets of ucudnn.nn: gradients by differences, their formulas written plainly, pytorch-tree-lstm, and float."""

import pathlib
import unittest

import torch
import ucudnn
from common import Graph, as_graphs, error, pulled, random_tree, seeded
from torch.func import functional_call
from ucudnn import nn

BOUND = 1e-12


def nary_tree_lstm(model, x, children):
    """Tai et al., equations 9 to 14, with words at the leaves. Returns the vertex's h and c."""
    if not children:
        i, o, u = model.W_iou(x).chunk(3)
        c = torch.sigmoid(i) * torch.tanh(u)
    else:
        empty = x.new_zeros(model.out_features)
        children = [child or (empty, empty) for child in children]
        h = torch.cat([h for h, _ in children])
        i, o, u = model.U_iou(h).chunk(3)
        forget = torch.sigmoid(model.U_f(h)).chunk(model.arity)
        c = torch.sigmoid(i) * torch.tanh(u)
        for gate, (_, child) in zip(forget, children, strict=True):
            c = c + gate * child
    return torch.sigmoid(o) * torch.tanh(c), c


def child_sum_tree_lstm(model, x, children):
    """Tai et al., equations 2 to 8."""
    total = sum((h for h, _ in children), x.new_zeros(model.out_features))
    i, o, u = (model.W_iou(x) + model.U_iou(total)).chunk(3)
    c = torch.sigmoid(i) * torch.tanh(u)
    for h, child in children:
        c = c + torch.sigmoid(model.W_f(x) + model.U_f(h)) * child
    return torch.sigmoid(o) * torch.tanh(c), c


def tree_gru(model, x, children):
    """As the module's text says."""
    z, r, n = model.W(x).chunk(3)
    total = sum((h for (h,) in children), x.new_zeros(model.out_features))
    z = torch.sigmoid(z + model.U_z(total))
    behind = sum((torch.sigmoid(r + model.U_r(h)) * h for (h,) in children), x.new_zeros(model.out_features))
    n = torch.tanh(n + model.U_n(behind))
    return (z * total + (1 - z) * n,)


def dag_gru(model, x, children):
    """D-VAE, equations 3 to 5, with torch's own GRU cell."""
    total = sum((torch.sigmoid(model.gate(h)) * model.mapper(h) for (h,) in children), x.new_zeros(model.out_features))
    return (model.cell(x[None], total[None])[0],)


def by_formula(formula, model, graphs, x):
    """A ready net's outputs, vertex by vertex."""
    outputs, first = [], 0
    for graph in graphs:
        found, rows = {}, pulled(graph, x[first : first + graph.row_count])

        def of(vertex, graph=graph, found=found, rows=rows):
            if vertex < 0:
                return None
            if vertex not in found:
                found[vertex] = formula(model, rows[vertex], [of(child) for child in graph.children[vertex]])
            return found[vertex]

        outputs += [of(vertex) for vertex in range(len(graph.children))]
        first += graph.row_count
    return [torch.stack(output) for output in zip(*outputs, strict=True)]


def called(model, batch, x):
    """A ready net's outputs, as a list."""
    found = model(batch, x)
    return [found] if isinstance(found, torch.Tensor) else list(found)


def with_words(graph):
    """The graph with a row of the input for each vertex."""
    return graph._replace(rows=list(range(len(graph.children))))


def shared_graphs(random, count):
    """Graphs whose vertices share children, of any number."""
    graphs = []
    for _ in range(count):
        size = random.randint(1, 9)
        children = [random.sample(range(vertex), random.randint(0, min(3, vertex))) for vertex in range(size)]
        graphs.append(Graph(children, list(range(size))))
    return graphs


def cases():
    """The name, module, formula and graphs of each case."""
    random = seeded("ready nets")
    trees = [random_tree(random, leaves) for leaves in (1, 2, 5, 7)]
    empty_slots = Graph([[], [0, -1], [], [-1, 2], [3, 1]], [0, -1, 1, -1, -1])
    wide = [Graph([[], [], [0, -1, 1], [-1, 2, -1], [], [4, 3, 2]], [0, 1, -1, -1, 2, -1]), Graph([[]], [0])]
    sums = [with_words(random_tree(random, leaves, 4)) for leaves in (1, 3, 6)] + shared_graphs(random, 2)
    yield "NaryTreeLSTM of 2", nn.NaryTreeLSTM(3, 2), nary_tree_lstm, [*trees, empty_slots]
    yield "NaryTreeLSTM of 3", nn.NaryTreeLSTM(2, 3, 3), nary_tree_lstm, wide
    yield "ChildSumTreeLSTM", nn.ChildSumTreeLSTM(3, 2), child_sum_tree_lstm, sums
    yield "TreeGRU", nn.TreeGRU(3, 2), tree_gru, sums
    yield "DagGRU", nn.DagGRU(2, 3), dag_gru, sums
    yield "TreeGRU over single vertices", nn.TreeGRU(3, 2), tree_gru, [Graph([[], []], [0, 1]), Graph([[]], [0])]
    yield "DagGRU over single vertices", nn.DagGRU(3, 2), dag_gru, [Graph([[]], [0])]


TEXTS = pathlib.Path(__file__).resolve().parents[2] / "crates/vertex/nets"


class ReadyNets(unittest.TestCase):
    def test_the_library_s_tests_have_their_texts(self):
        for module, name in ((nn.ChildSumTreeLSTM, "child_sum_tree_lstm"), (nn.TreeGRU, "tree_gru"), (nn.DagGRU, "dag_gru")):
            text = (TEXTS / f"{name}.txt").read_text()
            for word, number in (("{x}", 7), ("{h}", 5), ("{2h}", 10), ("{3h}", 15)):
                text = text.replace(word, str(number))
            self.assertEqual(module(7, 5).net.text().split(), text.split(), name)

    def test_they_are_their_formulas(self):
        for name, model, formula, graphs in cases():
            with self.subTest(name):
                model.double()
                batch = as_graphs(graphs).batch(range(len(graphs)))
                x = torch.randn(len(batch.rows), model.in_features, dtype=torch.float64, requires_grad=True)
                ours, plain = called(model, batch, x), by_formula(formula, model, graphs, x)
                weights = [torch.randn_like(output) for output in plain]
                results = []
                for outputs in (ours, plain):
                    loss = sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))
                    tensors = (x, *model.parameters())
                    found = torch.autograd.grad(loss, tensors, allow_unused=True)
                    found = [torch.zeros_like(tensor) if gradient is None else gradient
                             for tensor, gradient in zip(tensors, found, strict=True)]  # fmt: skip
                    results.append([*outputs, *found])
                for place, (found, expected) in enumerate(zip(*results, strict=True)):
                    distance = float((found - expected).norm())
                    self.assertLessEqual(distance, BOUND * float(expected.norm()), f"{place}")

    def test_gradients_are_central_differences(self):
        for name, model, _, graphs in cases():
            with self.subTest(name):
                model.double()
                batch = as_graphs(graphs).batch(range(len(graphs)))
                x = torch.randn(len(batch.rows), model.in_features, dtype=torch.float64, requires_grad=True)
                names = [name for name, _ in model.named_parameters()]

                def run(x, *parameters, model=model, batch=batch, names=names):
                    return functional_call(model, dict(zip(names, parameters, strict=True)), (batch, x))

                self.assertTrue(torch.autograd.gradcheck(run, (x, *model.parameters())))

    def test_float_is_as_near_to_double_as_torch_s_own(self):
        random = seeded("float")
        trees = [random_tree(random, random.randint(2, 12)) for _ in range(12)]
        for name, model, formula, _ in list(cases())[:5]:
            if name == "NaryTreeLSTM of 3":
                continue
            with self.subTest(name):
                model = type(model)(48, 40)
                graphs = trees if isinstance(model, nn.NaryTreeLSTM) else [with_words(tree) for tree in trees]
                batch = as_graphs(graphs).batch(range(len(graphs)))
                x = torch.randn(len(batch.rows), model.in_features)
                weights = torch.randn(len(batch.vertices), model.out_features)

                def results(outputs, model, x, weights):
                    found = torch.autograd.grad((outputs[0] * weights.to(x)).sum(), (x, *model.parameters()))
                    return [*outputs, *found]

                exact = type(model)(48, 40).double()
                exact.load_state_dict(model.state_dict())
                wide, x = x.double().requires_grad_(), x.requires_grad_()
                expected = results(by_formula(formula, exact, graphs, wide), exact, wide, weights)
                ours = results(called(model, batch, x), model, x, weights)
                torch_s = results(by_formula(formula, model, graphs, x), model, x, weights)
                norm = lambda found: sum(error(one, its) ** 2 for one, its in zip(found, expected, strict=True)) ** 0.5
                self.assertGreater(norm(torch_s), 0)
                self.assertLessEqual(norm(ours), 2 * norm(torch_s))


class Published(torch.nn.Module):
    """pytorch-tree-lstm's module: the names and shapes of its parameters, and level by level what it computes.

    https://github.com/unbounce/pytorch-tree-lstm
    """

    def __init__(self, in_features, out_features):
        super().__init__()
        self.out_features = out_features
        self.W_iou = torch.nn.Linear(in_features, 3 * out_features)
        self.U_iou = torch.nn.Linear(out_features, 3 * out_features, bias=False)
        self.W_f = torch.nn.Linear(in_features, out_features)
        self.U_f = torch.nn.Linear(out_features, out_features, bias=False)

    def forward(self, features, node_order, adjacency_list, edge_order):
        """features [vertices, in_features]; node_order [vertices] the level of each; adjacency_list [edges, 2] parents
        and children; edge_order [edges] the level of the parent."""
        h = features.new_zeros(len(features), self.out_features)
        c = torch.zeros_like(h)
        for level in range(int(node_order.max()) + 1):
            here = node_order == level
            iou, kept = self.W_iou(features[here]), 0
            if level > 0:
                parent, child = adjacency_list[edge_order == level].T
                iou = iou + self.U_iou(torch.zeros_like(h).index_add(0, parent, h[child])[here])
                f = torch.sigmoid(self.W_f(features[parent]) + self.U_f(h[child]))
                kept = torch.zeros_like(c).index_add(0, parent, f * c[child])[here]
            i, o, u = iou.chunk(3, 1)
            new = torch.sigmoid(i) * torch.tanh(u) + kept
            c = c.masked_scatter(here[:, None], new)
            h = h.masked_scatter(here[:, None], torch.sigmoid(o) * torch.tanh(new))
        return h, c


class PyTorchTreeLSTM(unittest.TestCase):
    def test_its_state_dicts_load_and_it_computes_the_same(self):
        random = seeded("published")
        published, ours = Published(5, 4).double(), nn.ChildSumTreeLSTM(5, 4).double()
        shapes = {"W_iou.weight": (12, 5), "W_iou.bias": (12,), "U_iou.weight": (12, 4), "W_f.weight": (4, 5),
                  "W_f.bias": (4,), "U_f.weight": (4, 4)}  # fmt: skip
        self.assertEqual({name: tuple(tensor.shape) for name, tensor in ours.state_dict().items()}, shapes)
        ours.load_state_dict(published.state_dict())
        trees = [with_words(random_tree(random, leaves, 4)) for leaves in (1, 4, 9, 6)]
        batch = as_graphs(trees).batch(range(len(trees)))
        x = torch.randn(len(batch.rows), 5, dtype=torch.float64)
        order, edges, first = [], [], 0
        for tree in trees:
            levels = []
            for vertex, children in enumerate(tree.children):
                levels.append(max((levels[child] + 1 for child in children), default=0))
                edges += [(first + vertex, first + child) for child in children]
            order += levels
            first += len(levels)
        order, edges = torch.tensor(order), torch.tensor(edges)
        found, expected = ours(batch, x), published(x, order, edges, order[edges[:, 0]])
        for one, its in zip(found, expected, strict=True):
            self.assertLess(error(one, its), BOUND)
        for model, outputs in ((ours, found), (published, expected)):
            (outputs[0] ** 2 + outputs[1]).sum().backward()
        for one, its in zip(ours.parameters(), published.parameters(), strict=True):
            self.assertLess(error(one.grad, its.grad), BOUND)
        again = Published(5, 4)
        again.load_state_dict(ours.state_dict())


class Leaves(unittest.TestCase):
    def test_words_at_the_leaves_are_numbered_so(self):
        children = [[[], [], [0, 1], [], [2, 3]], [[]]]
        batch = ucudnn.Graphs(children, rows="leaves").batch([1, 0])
        self.assertEqual(nn.NaryTreeLSTM(3, 2)(batch, torch.randn(4, 3))[0].shape, (6, 2))


if __name__ == "__main__":
    unittest.main()
