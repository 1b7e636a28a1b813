"""Checks Tree-LSTMs as vertex nets on a device. Prints a line for each check, "right" or "WRONG" first.

    dynamic_nets.py errors DEVICE             errors against double precision, beside eager PyTorch's
    dynamic_nets.py bits DEVICE RUNS          the same batch again and again
    dynamic_nets.py captured DEVICE BATCHES   one CUDA graph for many batches, beside uncaptured runs
    dynamic_nets.py small DEVICE              a few runs of small nets, for compute-sanitizer
"""

import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples/pytorch")]

import torch  # noqa: E402
import ucudnn  # noqa: E402

import tree_baselines  # noqa: E402
from dynamic_nets import Captured  # noqa: E402
from structures import recursion  # noqa: E402
from timing import Method, furthest  # noqa: E402
from tree_lstm import TreeLSTM  # noqa: E402
from trees import random_trees  # noqa: E402

HIDDEN = 256
# The most that an error may be, in multiples of eager PyTorch's.
KINDS = {"float": (torch.float32, False, 2.0), "TF32": (torch.float32, True, 1.5),
         "half": (torch.float16, False, 1.5), "bfloat16": (torch.bfloat16, False, 1.5)}  # fmt: skip

OURS = Method("ucudnn", None, lambda model, batch, x: model(batch, x))


class Trees:
    def __init__(self):
        self.trees = random_trees()
        self.graphs = ucudnn.Graphs(self.trees.children, counts=self.trees.counts, rows="leaves")

    def tensors(self, ids, hidden, dtype, device):
        """Words, and the gradient of h."""
        batch = self.graphs.batch(ids)
        x = torch.randn(len(batch.rows), hidden).to(device, dtype).requires_grad_()
        return batch, x, torch.randn(len(batch.vertices), hidden).to(device, dtype)


def model_of(kind, device, hidden=HIDDEN):
    dtype, tf32, _ = KINDS[kind]
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.manual_seed(1)
    return TreeLSTM(hidden, hidden).to(device, dtype), dtype


def say(is_right, words):
    print("right" if is_right else "WRONG", words, flush=True)


def errors(device):
    trees = Trees()
    eager = next(method for method in tree_baselines.rivals(trees.trees, device) if method.name == "E")
    for kind, (_, _, allowed) in KINDS.items():
        model, dtype = model_of(kind, device)
        if device == "cpu" and kind == "TF32":
            continue
        exact = TreeLSTM(HIDDEN, HIDDEN).double()
        exact.load_state_dict(model.state_dict())
        vertex = lambda *given: tree_baselines.vertex(exact, *given)  # noqa: E731, B023
        plain = Method("exact", None, lambda _, ids, x: recursion(trees.trees, ids, x, vertex))  # noqa: B023
        for count in (1, 8) if device == "cpu" else (1, 8, 64, 256):
            ids = list(range(100, 100 + count))
            batch, x, dh = trees.tensors(ids, HIDDEN, dtype, device)
            expected = plain.run(exact, ids, x.detach().cpu().double().requires_grad_(), dh.cpu().double())
            ours = furthest(OURS.run(model, batch, x, dh), expected)
            rival = furthest(eager.run(model, eager.prepare(ids), x, dh), expected)
            say(ours <= allowed * rival,
                f"{kind}, {count} trees: {ours:.1e}, {ours / rival:.2f} of eager's; {allowed} accepted")


def bits(device, runs):
    trees = Trees()
    for kind in ("float", "half"):
        model, dtype = model_of(kind, device)
        batch, x, dh = trees.tensors(list(range(40)), HIDDEN, dtype, device)
        first = [tensor.detach().clone() for tensor in OURS.run(model, batch, x, dh)]
        same = 0
        for _ in range(runs):
            same += all(map(torch.equal, first, OURS.run(model, batch, x, dh)))
        say(same == runs, f"{kind}: {same} of {runs} runs had the same bits")


def captured(device, batches):
    trees = Trees()
    for kind in ("float", "TF32", "half", "bfloat16"):
        if device == "cpu" and kind == "TF32":
            continue
        model, dtype = model_of(kind, device)
        source = random.Random(kind)
        id_lists = [source.sample(range(len(trees.graphs)), source.randint(1, 16)) for _ in range(batches)]
        method, same, zeros = Captured(trees.graphs), 0, 0
        method.batches([max(id_lists, key=len), *id_lists])
        for ids in id_lists:
            _, x, dh = trees.tensors(ids, HIDDEN, dtype, device)
            method.warm(model, ids, x, dh)
            found = [tensor.detach().clone() for tensor in method.run(model, ids, x, dh)]
            # The replay's inputs and results are the graph's memory, so this run takes copies.
            inputs, given = method.inputs, [tensor.detach().clone() for tensor in method.inputs]
            h, dx, *others = OURS.run(model, method.static, given[0].requires_grad_(), given[1])
            same += all(map(torch.equal, found, [h[: len(dh)], dx[: len(x)], *others]))
            zeros += not h[len(dh) :].any() and not dx[len(x) :].any()
            method.inputs = inputs
        say(same == zeros == batches, f"{kind}: {same} of {batches} replays have the bits of uncaptured runs, {zeros} "
                                      "zeros behind the last row")  # fmt: skip


def small(device):
    trees = Trees()
    for kind in ("float", "half"):
        model, dtype = model_of(kind, device, 24)
        for ids in ([0], list(range(12))):
            batch, x, dh = trees.tensors(ids, 24, dtype, device)
            OURS.run(model, batch, x, dh)
            OURS.run(model, trees.graphs.batch(ids, static=True), *(padded(t, trees, ids) for t in (x, dh)))
    for net in (ucudnn.nn.ChildSumTreeLSTM, ucudnn.nn.TreeGRU, ucudnn.nn.DagGRU):
        model, graphs = net(8, 12).to(device), ucudnn.Graphs(trees.trees.children, counts=trees.trees.counts)
        batch = graphs.batch([1, 2, 3])
        found = model(batch, torch.randn(len(batch.rows), 8, device=device, requires_grad=True))
        (found if isinstance(found, torch.Tensor) else found[0]).sum().backward()
    say(True, "ran")


def padded(tensor, trees, ids):
    rows = trees.graphs.batch(ids, static=True).most_vertices
    made = tensor.detach().new_zeros(rows, tensor.shape[1])
    made[: len(tensor)] = tensor.detach()
    return made.requires_grad_(tensor.requires_grad)


def main():
    what, device, *numbers = sys.argv[1:]
    {"errors": errors, "bits": bits, "captured": captured, "small": small}[what](device, *map(int, numbers))


if __name__ == "__main__":
    main()
