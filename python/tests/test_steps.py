"""`VertexNet.step`: a whole step of training in one call, against the same by parts in torch."""

import copy
import itertools
import pickle
import unittest

import torch
import torch.nn.functional as F
import ucudnn
from common import as_graphs, error, random_tree, seeded


class Scorer(torch.nn.Module):
    """Scores of classes at each vertex of a tree whose words are at the leaves."""

    def __init__(self, loss="scores", classes=3):
        super().__init__()
        self.W, self.U = torch.nn.Linear(5, 4), torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, classes)

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
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
            model, batch, x, labels = setting()
            labels = labels.abs()  # uint8 has no -1
            value = model.net.step(batch, x=x, labels=labels.to(dtype), lr=self.LR)
            results.append((value, [parameter.tolist() for parameter in model.parameters()]))
        self.assertTrue(all(result == results[0] for result in results))

    def test_labels_of_few_bytes_may_be_of_many_classes(self):
        for dtype, classes in ((torch.int8, 200), (torch.uint8, 256), (torch.int16, 40_000)):
            model = Scorer(classes=classes)
            batch = ucudnn.Graphs([[[], [], [0, 1]]]).batch([0])
            x = torch.randn(len(batch.rows), 5)
            labels = torch.tensor([5, 0, 100], dtype=dtype)
            losses = [copy.deepcopy(model).net.step(batch, x=x, labels=its, lr=self.LR) for its in (labels, labels.long())]
            self.assertEqual(*losses)

    def test_labels_may_lie_apart(self):
        for dtype in (torch.int64, torch.int32):
            losses = []
            for is_apart in (False, True):
                model, batch, x, labels = setting()
                labels = labels.to(dtype)
                if is_apart:
                    labels = torch.stack([labels, torch.zeros_like(labels)], 1)[:, 0]
                    self.assertFalse(labels.is_contiguous())
                losses.append(model.net.step(batch, x=x, labels=labels, lr=self.LR))
            self.assertEqual(*losses)

    def test_a_step_refuses_a_parametrized_parameter(self):
        model, batch, x, labels = setting()
        torch.nn.utils.parametrizations.weight_norm(model.W)
        with self.assertRaisesRegex(ucudnn.Refused, "'W.weight' requires no gradient"):
            model.net.step(batch, x=x, labels=labels, lr=self.LR)

    def test_a_step_refuses_one_tensor_of_two_names(self):
        model, batch, x, labels = setting()
        model.U.bias = model.W.bias
        with self.assertRaises(ucudnn.Refused) as refused:
            model.net.step(batch, x=x, labels=labels, lr=self.LR)
        text = "step: parameters 'W.bias' and 'U.bias' are one tensor, which has one name in the functions of a net that steps"
        self.assertEqual(str(refused.exception), text)

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


class Optimizers(unittest.TestCase):
    LR = 0.0625

    #: Ours, PyTorch's, and the bound of the parameters' error after some steps, by type.
    PAIRS = {
        "momentum": (lambda net: ucudnn.Momentum(net, 0.75), lambda its, **more: torch.optim.SGD(its, momentum=0.75, **more)),
        "nesterov": (lambda net: ucudnn.Momentum(net, 0.75, nesterov=True),
                     lambda its, **more: torch.optim.SGD(its, momentum=0.75, nesterov=True, **more)),
        "adam": (ucudnn.Adam, torch.optim.Adam),
        "adam with other numbers": (lambda net: ucudnn.Adam(net, (0.5, 0.75), 0.125),
                                    lambda its, **more: torch.optim.Adam(its, betas=(0.5, 0.75), eps=0.125, **more)),
        "adamw": (ucudnn.AdamW, torch.optim.AdamW),
    }  # fmt: skip

    def test_steps_are_those_of_pytorchs_optimizers(self):
        for (name, (ours, theirs)), (dtype, bound) in itertools.product(
            self.PAIRS.items(), ((torch.float64, 1e-11), (torch.float32, 2e-5))
        ):
            for decay in (0.0, Steps.DECAY):
                with self.subTest(name=name, dtype=dtype, decay=decay):
                    model, batch, x, labels = setting(dtype)
                    twin = copy.deepcopy(model)
                    optimizer = ours(model.net)
                    expected = theirs(twin.parameters(), lr=self.LR, weight_decay=decay)
                    for _ in range(6):
                        model.net.step(batch, x=x, labels=labels, lr=self.LR, weight_decay=decay, optimizer=optimizer)
                        value = F.cross_entropy(twin.net(batch, x=x).scores, labels, ignore_index=-1)
                        expected.zero_grad()
                        value.backward()
                        expected.step()
                    for one, its in zip(model.parameters(), twin.parameters(), strict=True):
                        self.assertLess(error(one, its), bound)

    def test_narrow_parameters_have_moments_of_float(self):
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                model, batch, x, labels = setting(torch.float32)
                model, x = model.to(dtype), x.to(dtype)
                twin = copy.deepcopy(model).double()
                optimizer, of_twin = ucudnn.Adam(model.net, eps=0.01), ucudnn.Adam(twin.net, eps=0.01)
                model.net.step(batch, x=x, labels=labels, lr=self.LR, optimizer=optimizer)
                twin.net.step(batch, x=x.double(), labels=labels, lr=self.LR, optimizer=of_twin)
                pairs = zip(optimizer.state_dict()["moments"][0].items(), of_twin.state_dict()["moments"][0].values(), strict=True)
                for (name, one), its in pairs:
                    self.assertEqual((name, one.dtype, its.dtype), (name, torch.float32, torch.float64))
                    self.assertLess(error(one, its), 4 * torch.finfo(dtype).eps)
                for one, its in zip(model.parameters(), twin.parameters(), strict=True):
                    self.assertLess(error(one, its), 4 * torch.finfo(dtype).eps)

    def test_a_state_is_kept_and_brought_back(self):
        model, batch, x, labels = setting()
        step = lambda model, optimizer: model.net.step(batch, x=x, labels=labels, lr=self.LR, optimizer=optimizer)
        optimizer = ucudnn.AdamW(model.net)
        for _ in range(3):
            step(model, optimizer)
        twin, state = copy.deepcopy(model), pickle.loads(pickle.dumps(optimizer.state_dict()))
        copied, loaded = copy.deepcopy(optimizer), ucudnn.AdamW(twin.net)
        loaded.load_state_dict(state)
        first = step(model, optimizer)
        self.assertEqual(first, step(twin, loaded))
        for one, its in zip(model.parameters(), twin.parameters(), strict=True):
            self.assertTrue(torch.equal(one, its))
        self.assertFalse(torch.equal(copied.state_dict()["powers"], optimizer.state_dict()["powers"]))

    def test_rows_of_an_embedding_that_nobody_reads_change_by_their_moments(self):
        torch.manual_seed(1)
        model = Words()
        batch, words = ucudnn.Graphs([[[], [], [0, 1]]]).batch([0]), torch.tensor([0, 2, 2])
        labels = torch.tensor([1, 0, 2])
        optimizer = ucudnn.Momentum(model.net)
        step = lambda words: model.net.step(batch, words=words, labels=labels, lr=self.LR, optimizer=optimizer)
        step(words)
        before = model.table.weight.detach().clone()
        step(torch.tensor([1, 1, 1]))
        changed = (model.table.weight != before).any(1).tolist()
        self.assertEqual(changed, [True, True, True, False])

    def test_what_is_not_accepted(self):
        model, batch, x, labels = setting()
        other = Words()
        adam = ucudnn.Adam(model.net)
        run = lambda optimizer, model=model: model.net.step(batch, x=x, labels=labels, lr=self.LR, optimizer=optimizer)
        cases = {
            "optimizer: one of ucudnn is accepted, as Adam, not Adam": lambda: run(torch.optim.Adam(model.parameters())),
            "optimizer: one of ucudnn is accepted, as Adam, not type": lambda: run(ucudnn.Adam),
            "step: the optimizer is of another net: its parameters have other names or sizes":
                lambda: run(ucudnn.Adam(other.net)),
            "step: the optimizer's moments of 'W.weight' are of torch.float32 on cpu; torch.float64 on cpu is accepted here: "
            "make the optimizer when the net is there": lambda: run(ucudnn.Adam(setting(torch.float32)[0].net)),
            "optimizer: a VertexNet is accepted, not Scorer": lambda: ucudnn.Adam(model),
            "betas: two numbers are accepted, not 0.9": lambda: ucudnn.Adam(model.net, 0.9),
            "betas: a number from 0 on, below 1 is accepted, not 1": lambda: ucudnn.Adam(model.net, (0.9, 1)),
            "momentum: a number from 0 on, below 1 is accepted, not nan": lambda: ucudnn.Momentum(model.net, float("nan")),
            "momentum: a number from 0 on, below 1 is accepted, not True": lambda: ucudnn.Momentum(model.net, True),
            "eps: a number from 0 on is accepted, not inf": lambda: ucudnn.Adam(model.net, eps=float("inf")),
            "load_state_dict: the state is of another optimizer or net: its parameters have other names or sizes":
                lambda: ucudnn.Momentum(model.net).load_state_dict(adam.state_dict()),
            "eps: a number that float64 holds is accepted, and this one is greater": lambda: ucudnn.Adam(model.net, eps=10**400),
            "load_state_dict: tensors of real numbers are accepted, not list":
                lambda: adam.load_state_dict(adam.state_dict() | {"powers": [1, 1]}),
            "load_state_dict: tensors of real numbers are accepted, not torch.float64 on meta":
                lambda: adam.load_state_dict(adam.state_dict() | {"powers": torch.ones(2, dtype=torch.float64, device="meta")}),
            "load_state_dict: the state is of another optimizer or net: IndexError('list index out of range')":
                lambda: adam.load_state_dict(ucudnn.Momentum(model.net).state_dict()),
        }  # fmt: skip
        before = [its.clone() for its in (*model.parameters(), *adam.state_dict()["moments"][1].values())]
        for text, case in cases.items():
            with self.subTest(text), self.assertRaises(ucudnn.Refused) as refused:
                case()
            self.assertEqual(str(refused.exception), text)
        for one, its in zip((*model.parameters(), *adam.state_dict()["moments"][1].values()), before, strict=True):
            self.assertTrue(torch.equal(one, its))


class Words(torch.nn.Module):
    """Scores of three classes from an embedding of four words."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(4, 3)

        def vertex(v):
            s = v.lookup("table.weight", v.pull_index("words")) + v.children().s.sum()
            v.scatter(s=s)
            v.push(scores=s)

        self.net = ucudnn.VertexNet({"s": 3}, {"any": vertex}, self, loss="scores")


if __name__ == "__main__":
    unittest.main()
