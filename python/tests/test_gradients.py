"""How runs take part in autograd: what lives on, what is refused, what accumulates."""

import copy
import gc
import unittest

import torch
import ucudnn
from common import as_graphs, error, random_tree, seeded
from ucudnn import nn


def setting(dtype=torch.float64, count=4):
    """A net, graphs, a batch of all, and its input."""
    random = seeded("gradients")
    model = nn.NaryTreeLSTM(5, 4).to(dtype)
    graphs = as_graphs([random_tree(random, random.randint(1, 6)) for _ in range(count)])
    batch = graphs.batch(range(count))
    return model, graphs, batch, torch.randn(len(batch.rows), 5, dtype=dtype, requires_grad=True)


def loss(outputs):
    return sum((output**2).sum() for output in outputs)


def gradients(model, batch, x):
    return torch.autograd.grad(loss(model(batch, x)), (x, *model.parameters()))


class Gradients(unittest.TestCase):
    def same(self, found, expected):
        for place, (one, its) in enumerate(zip(found, expected, strict=True)):
            self.assertTrue(torch.equal(one, its), place)

    def test_a_run_backward_needs_neither_batch_nor_net_nor_graphs(self):
        model, graphs, batch, x = setting()
        expected = gradients(model, batch, x)
        parameters, value = list(model.parameters()), loss(model(batch, x))
        del model, graphs, batch
        gc.collect()
        # What another net makes now would take the memory of the first, if it were free.
        other, _, again, y = setting(count=4)
        gradients(other, again, y)
        self.same(torch.autograd.grad(value, (x, *parameters)), expected)

    def test_runs_between_forward_and_backward_change_nothing(self):
        model, graphs, batch, x = setting()
        expected = gradients(model, batch, x)
        value = loss(model(batch, x))
        for ids in ([0], [3, 2, 1, 0, 0, 1], [1, 2]):
            other = graphs.batch(ids)
            gradients(model, other, torch.randn(len(other.rows), 5, dtype=torch.float64, requires_grad=True))
        first = loss(model(batch, x * 2))
        self.same(torch.autograd.grad(value, (x, *model.parameters())), expected)
        first.backward()

    def test_backward_runs_twice_if_the_graph_is_retained(self):
        model, _, batch, x = setting()
        value = loss(model(batch, x))
        value.backward(retain_graph=True)
        once = [tensor.grad.clone() for tensor in (x, *model.parameters())]
        value.backward()
        self.same([tensor.grad for tensor in (x, *model.parameters())], [2 * gradient for gradient in once])
        with self.assertRaisesRegex(RuntimeError, "backward through the graph a second time"):
            value.backward()

    def test_gradients_of_two_runs_add_up(self):
        model, graphs, batch, x = setting()
        other = graphs.batch([2, 0])
        y = torch.randn(len(other.rows), 5, dtype=torch.float64)
        apart = [torch.autograd.grad(loss(model(*its)), list(model.parameters())) for its in ((batch, x), (other, y))]
        loss(model(batch, x)).backward()
        loss(model(other, y)).backward()
        self.same([tensor.grad for tensor in model.parameters()], [one + its for one, its in zip(*apart, strict=True)])

    def test_second_derivatives_are_refused(self):
        model, _, batch, x = setting()
        # Of a sum, the gradient that comes in is a constant: what depends on x is in the net alone.
        for value in (loss, lambda outputs: sum(output.sum() for output in outputs)):
            (first,) = torch.autograd.grad(value(model(batch, x)), x, create_graph=True)
            self.assertTrue(torch.equal(first, torch.autograd.grad(value(model(batch, x)), x)[0]))
            with self.assertRaisesRegex(ucudnn.NotSupported, "a net has no second derivatives"):
                (first.square().sum() + x.sum()).backward()

    def test_forward_mode_is_refused(self):
        model, _, batch, x = setting()
        x, forward = x.detach(), torch.autograd.forward_ad
        output = model(batch, x)[0]
        runs = {
            "": lambda dual: model(batch, dual),
            "without gradients": torch.no_grad()(lambda dual: model(batch, dual)),
            "backward": lambda dual: torch.autograd.grad(output, model.U_f.weight, dual[:1, :4].expand_as(output)),
        }
        for name, run in runs.items():
            with self.subTest(name), forward.dual_level():
                with self.assertRaisesRegex(ucudnn.NotSupported, "a net has no derivatives in forward mode"):
                    run(forward.make_dual(x, torch.ones_like(x)))
        # A net without tangents runs there.
        with forward.dual_level():
            self.same(model(batch, x), [output, model(batch, x)[1]])

    def test_transforms_are_refused(self):
        model, _, batch, x = setting()
        run = lambda x: model(batch, x)[0]
        several = lambda x: x.expand(2, *x.shape)
        for name, case in {
            "vmap": lambda x: torch.func.vmap(run)(several(x)),
            "grad": torch.func.grad(lambda x: run(x).sum()),
            "vjp": lambda x: torch.func.vjp(run, x),
            "jvp": lambda x: torch.func.jvp(run, (x,), (x,)),
            "parameters": lambda x: torch.func.vmap(lambda y: run(x) + y.sum())(several(x)),
        }.items():
            for is_trained in (True, False):
                model.requires_grad_(is_trained)
                with self.subTest(name, is_trained=is_trained):
                    if name == "parameters" and not is_trained:
                        self.assertEqual(case(x.detach()).shape[0], 2)
                        continue
                    with self.assertRaisesRegex(ucudnn.NotSupported, "torch.func's transforms"):
                        case(x.detach())

    def test_only_what_requires_a_gradient_gets_one(self):
        model, _, batch, x = setting()
        tensors = dict(model.named_parameters()) | {"x": x}
        expected = dict(zip(("x", *dict(model.named_parameters())), gradients(model, batch, x), strict=True))
        for wanted in (["x"], ["U_f.bias"], ["W_iou.weight", "U_iou.weight"], ["x", "U_iou.bias", "U_f.weight"]):
            with self.subTest(wanted=wanted):
                for name, tensor in tensors.items():
                    tensor.grad = None
                    tensor.requires_grad_(name in wanted)
                loss(model(batch, x)).backward()
                for name, tensor in tensors.items():
                    if name in wanted:
                        self.assertTrue(torch.equal(tensor.grad, expected[name]), name)
                    else:
                        self.assertIsNone(tensor.grad, name)

    def test_outputs_without_a_gradient_count_as_zero(self):
        model, _, batch, x = setting()
        tensors = (x, *model.parameters())
        for output in range(2):
            alone = torch.autograd.grad((model(batch, x)[output] ** 2).sum(), tensors, allow_unused=True)
            outputs = model(batch, x)
            both = (outputs[output] ** 2).sum() + (0 * outputs[1 - output]).sum()
            for one, its in zip(alone, torch.autograd.grad(both, tensors), strict=True):
                self.assertTrue(torch.equal(torch.zeros_like(its) if one is None else one, its))

    def test_tensors_need_not_be_contiguous(self):
        model, _, batch, x = setting()
        expected = [*model(batch, x), *gradients(model, batch, x)]
        turned = copy.deepcopy(model)
        for layer in (turned.W_iou, turned.U_iou, turned.U_f):
            layer.weight = torch.nn.Parameter(layer.weight.detach().T.contiguous().T)
            layer.bias = torch.nn.Parameter(layer.bias.detach().repeat_interleave(2)[::2])
            self.assertFalse(layer.weight.is_contiguous() or layer.bias.is_contiguous())
        base = torch.empty(5, len(x), dtype=x.dtype)
        base.copy_(x.detach().T)
        y = base.T.requires_grad_()
        self.same([*turned(batch, y), *gradients(turned, batch, y)], expected)
        # A gradient that is one number, spread out.
        h, _ = model(batch, x)
        spread = torch.autograd.grad(h.sum(), x, retain_graph=True)
        self.same(spread, torch.autograd.grad(h, x, torch.ones_like(h), retain_graph=True))
        wide = torch.randn(h.shape[1], h.shape[0], dtype=h.dtype).T
        self.same(torch.autograd.grad(h, x, wide, retain_graph=True), torch.autograd.grad(h, x, wide.contiguous()))

    def test_no_gradient_where_none_is_wanted(self):
        model, _, batch, x = setting()
        expected = model(batch, x)
        for way in (torch.no_grad, torch.inference_mode):
            with way():
                found = model(batch, x)
            self.assertFalse(any(output.requires_grad for output in found))
            self.same(found, [output.detach() for output in expected])
        model.requires_grad_(False)
        self.assertFalse(any(output.requires_grad for output in model(batch, x.detach())))
        self.assertTrue(all(output.requires_grad for output in expected))

    def test_what_was_written_in_between_is_noticed(self):
        model, _, batch, x = setting()
        value = loss(model(batch, x))
        with torch.no_grad():
            model.U_f.weight.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            value.backward()

    def test_inputs_may_be_results(self):
        model, _, batch, x = setting()
        embedding = torch.nn.Linear(5, 5).double()
        h, _ = model(batch, torch.tanh(embedding(x)))
        torch.nn.Linear(4, 1).double()(h).sum().backward()
        for tensor in (x, *embedding.parameters(), *model.parameters()):
            self.assertGreater(float(tensor.grad.abs().sum()), 0)

    def test_a_net_may_run_on_what_another_pushed(self):
        # Two passes: from the leaves up, and over the roots' outputs once more.
        model, _, batch, x = setting()
        second = nn.NaryTreeLSTM(4, 3).double()
        leaves = len(batch.rows)

        def run(x, *parameters):
            of_first = torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (batch, x))
            return second(batch, of_first[0][:leaves])

        names = [name for name, _ in model.named_parameters()]
        self.assertTrue(torch.autograd.gradcheck(run, (x, *model.parameters())))

    def test_a_batch_serves_two_nets_and_two_types(self):
        model, _, batch, x = setting()
        other = copy.deepcopy(model).float()
        before = gradients(model, batch, x)
        found = gradients(other, batch, x.detach().float().requires_grad_())
        self.same(gradients(model, batch, x), before)
        for one, its in zip(found, before, strict=True):
            self.assertLess(error(one, its), 1e-5)

    def test_a_net_that_pulls_only_indices_runs_in_its_parameters_type(self):
        class Looked(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Parameter(torch.randn(6, 3, dtype=torch.float64))
                function = lambda v: v.push(y=v.lookup("table", v.pull_index("i")).tanh())
                self.net = ucudnn.VertexNet({}, {"any": function}, self)

        model, batch = Looked(), ucudnn.Graphs([[[], [], []]], rows=[2, -1, 0]).batch([0])
        index = torch.tensor([4, 0, 4])
        y = model.net(batch, i=index).y
        table = model.table.detach()
        self.assertLess(error(y, torch.stack([table[4], torch.zeros(3), table[4]]).tanh()), 1e-15)
        self.assertTrue(torch.equal(y[1], torch.zeros(3, dtype=torch.float64)))
        y.sum().backward()
        expected = torch.zeros(6, 3, dtype=torch.float64)
        expected[4] = 2 * (1 - table[4].tanh() ** 2)
        self.assertLess(error(model.table.grad, expected), 1e-14)


if __name__ == "__main__":
    unittest.main()
