"""torch.compile: a net is one operator, without a graph break, for batches of any size."""

import unittest

import torch
import ucudnn
from common import Programs, as_graphs, random_tree, seeded
from torch.utils.checkpoint import checkpoint
from ucudnn import nn

SIZES = ([0], [0, 1, 2], [3], [4, 5, 6, 7, 0, 1], [2, 2], [6, 5, 4, 3, 2, 1, 0])


def why_not():
    """Why compiled nets cannot be tested here; None if they can."""
    try:
        import torch._dynamo
        import torch._dynamo.testing
    except ImportError as missing:
        return f"torch._dynamo cannot be imported: {missing}"
    return None


def setting():
    random = seeded("compiled")
    graphs = as_graphs([random_tree(random, random.randint(2, 7)) for _ in range(8)])
    return nn.NaryTreeLSTM(5, 4), torch.nn.Linear(4, 3), graphs


def programs_are_equal():
    import torch._dynamo.testing

    model, head, graphs = setting()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def run(batch, x):
        h, c = model(batch, torch.sin(x))
        return head(h), c

    compiled = torch.compile(run, backend=counter, fullgraph=True)
    tensors = [*model.parameters(), *head.parameters()]
    for ids in (*SIZES, *SIZES):
        batch = graphs.batch(ids)
        x = torch.randn(len(batch.rows), 5, requires_grad=True)
        results = []
        for function in (run, compiled):
            outputs = function(batch, x)
            loss = sum((output**2).sum() for output in outputs)
            results.append([*outputs, *torch.autograd.grad(loss, (x, *tensors))])
        for eager, found in zip(*results, strict=True):
            torch.testing.assert_close(found, eager, rtol=1e-6, atol=1e-6)
        with torch.no_grad():
            for eager, found in zip(run(batch, x), compiled(batch, x), strict=True):
                torch.testing.assert_close(found, eager, rtol=1e-6, atol=1e-6)
    # For one size, then for any; with gradients and without.
    assert counter.frame_count <= 4, counter.frame_count


def deleted_batches_do_no_harm():
    model, head, graphs = setting()
    compiled = torch.compile(lambda batch, x: head(model(batch, x)[0]), backend="aot_eager", fullgraph=True)
    x = torch.randn(graphs.batch([1, 2]).rows.shape[0], 5, requires_grad=True)
    expected = torch.autograd.grad(head(model(graphs.batch([1, 2]), x)[0]).sum(), x)
    value = compiled(graphs.batch([1, 2]), x).sum()
    del graphs
    assert torch.equal(*torch.autograd.grad(value, x), *expected)


def what_is_gone_is_refused():
    """Graphs that were replaced, and what only a hook's copy of a number is left of."""
    model, _, graphs = setting()
    batch = graphs.batch([0, 4], static=True)
    x = torch.randn(batch.most_vertices, 5, requires_grad=True)
    run = lambda batch, x: model(batch, x)[0]
    again = lambda batch, x: checkpoint(run, batch, x, use_reentrant=False)
    expected = torch.autograd.grad(run(batch, x).sum(), x)
    for function in (run, again):
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        assert torch.equal(*torch.autograd.grad(compiled(batch, x).sum(), x), *expected)
        value = compiled(batch, x).sum()
        batch.set([1])
        refused(value, "set to other graphs since this run forward")
        batch.set([0, 4])
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
        value = torch.compile(run, backend="aot_eager", fullgraph=True)(batch, x).sum()
    refused(value, "a saved-tensor hook copied the tensor of torch.int64 that kept it")


def transforms_are_refused():
    """A compiler would take what a net gives for constants."""
    model, _, graphs = setting()
    batch = graphs.batch([0, 4])
    x = torch.randn(len(batch.rows), 5)
    run = lambda x: model(batch, x)[0]
    programs = {
        "vmap": lambda x: torch.func.vmap(run)(x.expand(2, *x.shape)),
        "grad": torch.func.grad(lambda x: run(x).sum()),
        "jvp": lambda x: torch.func.jvp(run, (x,), (x,))[1],
    }
    for is_trained in (True, False):
        model.requires_grad_(is_trained)
        for name, program in programs.items():
            torch._dynamo.reset()
            try:
                torch.compile(program, backend="aot_eager")(x)
            except ucudnn.NotSupported as reason:
                assert "torch.func's transforms" in str(reason), str(reason)
            else:
                raise AssertionError(f"{name} was accepted")


def refused(value, text):
    try:
        value.backward()
    except ucudnn.Refused as reason:
        assert text in str(reason), str(reason)
    else:
        raise AssertionError("was accepted")


def module_compiles_whole():
    model, _, graphs = setting()
    batch = graphs.batch([0, 4])
    x = torch.randn(len(batch.rows), 5)
    expected = model(batch, x)
    found = torch.compile(model, backend="aot_eager", fullgraph=True)(batch, x)
    for one, its in zip(found, expected, strict=True):
        assert torch.equal(one, its)


def explained():
    import torch._dynamo

    model, _, graphs = setting()
    batch = graphs.batch([0, 4])
    found = torch._dynamo.explain(lambda batch, x: model(batch, x)[0].tanh())(batch, torch.randn(len(batch.rows), 5))
    assert found.graph_break_count == 0, found.break_reasons


@unittest.skipIf(why_not(), why_not())
class Compiled(Programs):
    def test_compiled_programs_are_equal_for_all_sizes(self):
        self.run_functions("programs_are_equal()")

    def test_transforms_are_refused(self):
        self.run_functions("transforms_are_refused()")

    def test_deleted_batches_do_no_harm_and_modules_compile_whole(self):
        names = ("deleted_batches_do_no_harm", "what_is_gone_is_refused", "module_compiles_whole", "explained")
        self.run_functions(*(f"{name}()" for name in names))


class Operators(unittest.TestCase):
    @unittest.skipIf(why_not(), why_not())
    def test_the_operators_agree_with_what_they_tell_the_compiler(self):
        model, _, graphs = setting()
        batch = graphs.batch([1, 2])
        parameters = [parameter.detach() for parameter in model.parameters()]
        x = torch.randn(len(batch.rows), 5)
        core = model.net._core
        arguments = (batch._number, batch.vertices, parameters, [x], core.number, core.widths)
        checks = ("test_schema", "test_faketensor")
        for is_training in (False, True):
            torch.library.opcheck(torch.ops.ucudnn.vertex_forward.default, (*arguments, is_training), test_utils=checks)


if __name__ == "__main__":
    unittest.main()
