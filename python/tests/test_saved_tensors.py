"""What a run forward keeps, in the hands of hooks: copied, taken elsewhere, or computed again."""

import ctypes
import gc
import io
import unittest

import torch
import ucudnn
from common import as_graphs, random_tree, seeded
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint


def setting(is_static):
    random = seeded("saved tensors")
    model = ucudnn.nn.NaryTreeLSTM(3, 4).double()
    graphs = as_graphs([random_tree(random, random.randint(2, 5)) for _ in range(4)])
    batch = graphs.batch([2, 0, 1], static=is_static)
    rows = batch.most_vertices if is_static else len(batch.rows)
    return model, graphs, batch, torch.randn(rows, 3, dtype=torch.float64, requires_grad=True)


def loss(outputs):
    return sum((output**2).sum() for output in outputs)


def on_disk(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()


def from_disk(data):
    return torch.load(io.BytesIO(data), weights_only=True)


def as_bytes(tensor):
    return tensor.dtype, tensor.shape, ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


def at_an_odd_address(kept):
    """For bytes alone: torch reads no other numbers there."""
    dtype, shape, data = kept
    skipped = 1 if dtype == torch.uint8 else 0
    return torch.frombuffer(bytearray(skipped) + bytearray(data), dtype=dtype, offset=skipped).reshape(shape)


#: What packs a tensor, and what brings it back.
WAYS = {
    "copied": (torch.clone, torch.clone),
    "floats copied": (lambda tensor: tensor.clone() if tensor.is_floating_point() else tensor, lambda kept: kept),
    "strided": (lambda tensor: torch.stack([tensor, tensor], -1), lambda kept: kept[..., 0]),
    "listed": (lambda tensor: (tensor.dtype, tensor.tolist()), lambda kept: torch.tensor(kept[1], dtype=kept[0])),
    "on disk": (on_disk, from_disk),
    "at an odd address": (as_bytes, at_an_odd_address),
}


class SavedTensors(unittest.TestCase):
    def same(self, found, expected):
        for place, (one, its) in enumerate(zip(found, expected, strict=True)):
            self.assertTrue(torch.equal(one, its), place)

    def test_hooks_may_take_what_is_saved_anywhere(self):
        for is_static in (False, True):
            model, graphs, batch, x = setting(is_static)
            tensors = (x, *model.parameters())
            expected = torch.autograd.grad(loss(model(batch, x)), tensors)
            contexts = {name: saved_tensors_hooks(*way) for name, way in WAYS.items()} | {"on the CPU": save_on_cpu()}
            for name, hooks in contexts.items():
                with self.subTest(name, is_static=is_static):
                    with hooks:
                        once, twice = loss(model(batch, x)), loss(model(batch, x)) + loss(model(batch, x))
                    gc.collect()
                    loss(model(batch, x * 2)).backward()  # in what memory came free
                    self.same(torch.autograd.grad(once, tensors, retain_graph=True), expected)
                    self.same(torch.autograd.grad(once, tensors), expected)
                    self.same(torch.autograd.grad(twice, tensors), [2 * gradient for gradient in expected])

    def test_nothing_but_the_hooks_keeps_what_they_took(self):
        model, _, batch, x = setting(False)
        saved = []

        def pack(tensor):
            saved.append(tensor.data_ptr())
            return as_bytes(tensor)

        with saved_tensors_hooks(pack, at_an_odd_address):
            value = loss(model(batch, x))
        # What the next run forward keeps lies where the last one's did.
        again = []
        with saved_tensors_hooks(lambda tensor: again.append(tensor.data_ptr()) or tensor, lambda kept: kept):
            other = loss(model(batch, x))
        self.assertIn(again[0], saved)
        tensors = (x, *model.parameters())
        self.same(*(torch.autograd.grad(each, tensors) for each in (value, other)))

    def test_batches_may_be_gone(self):
        model, graphs, batch, x = setting(False)
        tensors = (x, *model.parameters())
        expected = torch.autograd.grad(loss(model(batch, x)), tensors)
        with saved_tensors_hooks(*WAYS["on disk"]):
            value = loss(model(batch, x))
        del model, graphs, batch
        gc.collect()
        self.same(torch.autograd.grad(value, tensors), expected)

    def test_another_kind_of_tensor_is_refused(self):
        model, _, batch, x = setting(False)
        narrower = lambda kept: kept.float() if kept.is_floating_point() else kept
        shorter = lambda kept: kept[1:] if kept.dtype == torch.uint8 else kept
        for unpack, found, given in (
            (narrower, r"torch.float32 \[\d+, 3\]", r"torch.float64 \[\d+, 3\]"),
            (shorter, r"torch.uint8 \[\d+\]", r"torch.uint8 \[\d+\]"),
        ):
            with saved_tensors_hooks(torch.clone, unpack):
                value = loss(model(batch, x))
            text = f"gave back a tensor of {found} on cpu; what it was given, {given} on cpu, is accepted"
            with self.assertRaisesRegex(ucudnn.Refused, text):
                value.backward()

    def test_checkpoints_compute_again_within_hooks_and_around_them(self):
        model, graphs, batch, x = setting(False)
        tensors = (x, *model.parameters())
        expected = torch.autograd.grad(loss(model(batch, x)), tensors)

        def hooked(batch, x):
            with saved_tensors_hooks(*WAYS["copied"]):
                return model(batch, x)

        runs = {
            "around": lambda x: model(batch, x),
            "within": lambda x: hooked(batch, x),
            "with a batch of its own": lambda x: model(graphs.batch([2, 0, 1]), x),
            "twice": lambda x: checkpoint(hooked, batch, x, use_reentrant=False),
        }
        for use_reentrant in (False, True):
            for name, run in runs.items():
                with self.subTest(name, use_reentrant=use_reentrant):
                    for tensor in tensors:
                        tensor.grad = None
                    with saved_tensors_hooks(*WAYS["copied"]):
                        value = loss(checkpoint(run, x, use_reentrant=use_reentrant))
                    # The net now has memory for larger batches, in which the first one runs again.
                    larger = graphs.batch([3, 2, 1, 0] * (4 if use_reentrant else 2))
                    model(larger, torch.zeros(len(larger.rows), 3, dtype=torch.float64))
                    value.backward()
                    self.same([tensor.grad for tensor in tensors], expected)


if __name__ == "__main__":
    unittest.main()
