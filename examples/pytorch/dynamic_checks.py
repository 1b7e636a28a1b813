"""Checks vertex nets on a device. Prints a line for each check, "right" or "WRONG" first.

    dynamic_checks.py errors DEVICE [NET ...]   errors against double precision, beside eager PyTorch's, of these nets or all
    dynamic_checks.py bits DEVICE RUNS          the same batch again and again
    dynamic_checks.py captured DEVICE BATCHES   one CUDA graph for many batches, beside uncaptured runs
    dynamic_checks.py loader DEVICE BATCHES     trainings with a loader, on several streams and captured, beside one without
    dynamic_checks.py optimizers DEVICE BATCHES steps by optimizers, captured, beside uncaptured ones and double precision
    dynamic_checks.py small DEVICE              a few runs of small nets, for compute-sanitizer
"""

import argparse
import contextlib
import copy
import itertools
import random
import sys

import torch
import ucudnn

import finds_harness  # noqa: F401
from dynamic_nets import NETS, Captured
from dynamic_steps import CLASSES, RATE, CapturedCall, CapturedFromLoader, Steps
from harness.calls import TYPES, allow_tf32, error, largest
from structures import LEAVES
from timing import Method

HIDDEN = 256
KINDS = ("float", "TF32", "half", "bfloat16")
NOT_TF32 = ("float", "half", "bfloat16")
# The most that the largest error of a tensor may be, in multiples of the largest one of eager PyTorch's.
MOST_ERROR = 1.2
# The widths of nets, and the numbers of graphs, whose errors are looked at. Rows of an odd width begin anywhere. There
# PyTorch does not round to TF32, so 36 takes its place.
WIDTHS, COUNTS = (256, 100, 37), (1, 4)
# Wide nets have launches for each level, and sums of thousands of products: nets, a width, and a number of graphs, on a GPU.
WIDE = (("tree-lstm", 1024, 16), ("tree-lstm", 2048, 4), ("lstm", 1024, 16))

OURS = Method("ucudnn", None, lambda model, batch, x: model(batch, x))


def tensors(net, ids, dtype, device, hidden=HIDDEN):
    """The batch, words, and the gradient of h."""
    batch = net.graphs.batch(ids)
    x = torch.randn(len(batch.rows), hidden).to(device, dtype).requires_grad_()
    return batch, x, torch.randn(len(batch.vertices), hidden).to(device, dtype)


def models(net, device, kinds=KINDS, hidden=HIDDEN):
    """Kind, model and type of each; TF32 is a GPU's."""
    for kind in kinds:
        if device == "cpu" and kind == "TF32":
            continue
        allow_tf32(kind == "TF32")
        torch.manual_seed(1)
        dtype = TYPES[kind.lower()]
        yield kind, net.model(hidden).to(device, dtype), dtype


def say(is_right, words):
    print("right" if is_right else "WRONG", words, flush=True)


def errors(device, *names):
    """A line for each net, type and width: the largest ratio to eager PyTorch's error of some batches. "By tensor" is the
    largest of any tensor's error to eager's error of the same one."""
    for name in names or NETS:
        net = NETS[name](argparse.Namespace(leaves=LEAVES, words=None))
        eager = next(method for method in net.methods(device) if method.name == "E")
        sizes = [*((width, KINDS, COUNTS) for width in WIDTHS[:2]), (WIDTHS[2], NOT_TF32, COUNTS), (36, ("TF32",), COUNTS)]
        if device == "cuda":
            sizes += [(width, ("float",), (count,)) for wide, width, count in WIDE if wide == name]
        for width, kinds, counts in sizes:
            for kind, model, dtype in models(net, device, kinds, width):
                exact = copy.deepcopy(model).double()
                found = [ratios(net, eager, model, exact, count, dtype, device, width) for count in counts]
                ours, ratio, by_tensor = (largest(each) for each in zip(*found, strict=True))
                say(ratio <= MOST_ERROR, f"{name}, H = {width}, {kind}: at most {ours:.1e}, {ratio:.2f} of eager's; by "
                                         f"tensor {by_tensor:.2f}")  # fmt: skip


def ratios(net, eager, model, exact, count, dtype, device, width):
    """Our largest error of a tensor; its ratio to eager PyTorch's; the largest ratio of errors of the same tensor."""
    ids = list(range(100, 100 + count))
    batch, x, dh = tensors(net, ids, dtype, device, width)
    expected = net.expected(exact, ids, x, dh)
    ours, theirs = ([error(one, its) for one, its in zip(results, expected, strict=True)]
                    for results in (OURS.run(model, batch, x, dh), eager.run(model, eager.prepare(ids), x, dh)))  # fmt: skip
    by_tensor = [one / max(other, 1e-30) for one, other in zip(ours, theirs, strict=True) if one > 0]
    return largest(ours), largest(ours) / largest(theirs), largest(by_tensor)


def bits(device, runs):
    net = NETS["tree-lstm"](None)
    for kind, model, dtype in models(net, device, ("float", "half")):
        batch, x, dh = tensors(net, list(range(40)), dtype, device)
        first = [tensor.detach().clone() for tensor in OURS.run(model, batch, x, dh)]
        same = 0
        for _ in range(runs):
            same += all(map(torch.equal, first, OURS.run(model, batch, x, dh)))
        say(same == runs, f"{kind}: {same} of {runs} runs had the same bits")


def captured(device, batches):
    net = NETS["tree-lstm"](None)
    for kind, model, dtype in models(net, device):
        source = random.Random(kind)
        id_lists = [source.sample(range(len(net.graphs)), source.randint(1, 16)) for _ in range(batches)]
        method, same, zeros = Captured(net.graphs), 0, 0
        method.batches([max(id_lists, key=len), *id_lists])
        for ids in id_lists:
            _, x, dh = tensors(net, ids, dtype, device)
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


WORDS, AT_ONCE = 100, 8


def loader(device, batches):
    """Parameters after steps with a loader's batches have the bits of those after steps whose batches are made then."""
    net = Steps(WORDS, device)
    for kind, model, _ in models(net, device, ("float", "bfloat16")):
        source = random.Random(kind)
        id_lists = [source.sample(range(len(net.graphs)), AT_ONCE) for _ in range(batches)]
        words, labels = torch.randint(WORDS, (net.graphs.rows,)), torch.randint(CLASSES, (net.graphs.vertices,))
        samples = lambda batch: (batch, words[batch.rows], labels[batch.vertices])
        for name, steps in (("each on another stream", on_streams), ("captured", by_replays)):
            before, expected = copy.deepcopy(model), copy.deepcopy(model)
            found = copy.deepcopy(model)
            steps(device, net.graphs, id_lists, samples, found, expected)
            each = list(zip(*(its.parameters() for its in (found, expected, before)), strict=True))
            moved = any(not torch.equal(one, old) for one, _, old in each)
            say(moved and all(torch.equal(one, its) for one, its, _ in each),
                f"{kind}, {name}: the parameters after {batches} steps with a loader and without")


OPTIMIZERS = {"momentum": ucudnn.Momentum, "Adam": lambda net: ucudnn.Adam(net, eps=1e-3),
              "AdamW": lambda net: ucudnn.AdamW(net, eps=1e-3)}  # fmt: skip
# The most that a parameter may be off after the steps, of its norm: in float some roundings a step.
MOST_OFF = {"float": 1e-5, "bfloat16": 5e-2}


def optimizers(device, batches):
    """Parameters after captured steps by optimizers have the bits of those after uncaptured ones, and are those of steps in
    double precision on the CPU."""
    net = Steps(WORDS, device)
    for kind, model, _ in models(net, device, ("float", "bfloat16")):
        source = random.Random(kind)
        id_lists = [source.sample(range(len(net.graphs)), AT_ONCE) for _ in range(batches)]
        words, labels = torch.randint(WORDS, (net.graphs.rows,)), torch.randint(CLASSES, (net.graphs.vertices,))
        for name, made in OPTIMIZERS.items():
            found, expected, exact = copy.deepcopy(model), copy.deepcopy(model), copy.deepcopy(model).double().cpu()
            method, plain, of_exact = CapturedCall(net.graphs), CapturedCall(net.graphs), made(exact.whole)
            method.optimizer, plain.optimizer = made(found.whole), made(expected.whole)
            method.batches(id_lists)
            plain.static = copy.deepcopy(method.static)
            plain.inputs = [torch.zeros(plain.static.most_vertices, dtype=torch.int64, device=device) for _ in range(2)]
            for ids in id_lists:
                batch = net.graphs.batch(ids)
                given = words[batch.rows], labels[batch.vertices]
                there = [its.to(device) for its in given]
                state = copy.deepcopy(method.optimizer.state_dict())
                is_first = not method.inputs
                method.warm(found, ids, *there)
                if is_first:  # what is captured has run
                    method.optimizer.load_state_dict(state)
                method.run(found, ids, *there)
                plain.load(ids, *there)
                plain.compute(expected)
                exact.whole.step(batch, words=given[0], labels=given[1], lr=RATE, optimizer=of_exact)
            each = list(zip(*(its.parameters() for its in (found, expected, exact)), strict=True))
            off = max(error(one.detach().cpu(), its.detach()) for one, _, its in each)
            say(all(torch.equal(one, its) for one, its, _ in each) and off <= MOST_OFF[kind],
                f"{kind}, {name}: the parameters after {batches} captured steps and uncaptured ones; off by {off:.1e}")


def on_streams(device, graphs, id_lists, samples, found, expected):
    streams = itertools.cycle([torch.cuda.Stream() for _ in range(3)] if device == "cuda" else [None])
    flat = list(itertools.chain.from_iterable(id_lists))
    for batch, words, labels in graphs.loader(AT_ONCE, sampler=flat, collate_fn=samples, device=device):
        with behind(next(streams)):
            found.whole.step(batch, words=words, labels=labels, lr=RATE)
    for ids in id_lists:
        batch, *given = samples(graphs.batch(ids))
        words, labels = (tensor.to(device) for tensor in given)
        expected.whole.step(batch, words=words, labels=labels, lr=RATE)


@contextlib.contextmanager
def behind(stream):
    """A stream behind the current one, which then goes on behind it. None is the current one itself."""
    if stream is None:
        yield
        return
    before = torch.cuda.current_stream()
    stream.wait_stream(before)
    with torch.cuda.stream(stream):
        yield
    before.wait_stream(stream)


def by_replays(device, graphs, id_lists, samples, found, expected):
    inputs = [[tensor.to(device) for tensor in samples(graphs.batch(ids))[1:]] for ids in id_lists]
    method, plain = CapturedFromLoader(graphs), CapturedCall(graphs)
    method.batches(id_lists)
    plain.static = copy.deepcopy(method.loader.batches[0])  # which launches what those of the loader do
    plain.inputs = [torch.zeros(plain.static.most_vertices, dtype=torch.int64, device=device) for _ in inputs[0]]
    method.warm(found, id_lists[0], *inputs[0])
    method.run_in_a_row(found, id_lists, inputs)
    for ids, its in zip(id_lists, inputs, strict=True):
        plain.load(ids, *its)
        plain.compute(expected)


def small(device):
    net = NETS["tree-lstm"](None)
    for _, model, dtype in models(net, device, ("float", "half"), 24):
        for ids in ([0], list(range(12))):
            batch, x, dh = tensors(net, ids, dtype, device, 24)
            OURS.run(model, batch, x, dh)
            static = net.graphs.batch(ids, static=True)
            OURS.run(model, static, *(padded(tensor, static.most_vertices) for tensor in (x, dh)))
    children = net.structures.children
    for ready in (ucudnn.nn.ChildSumTreeLSTM, ucudnn.nn.TreeGRU, ucudnn.nn.DagGRU):
        model, graphs = ready(8, 12).to(device), ucudnn.Graphs(children, counts=net.structures.counts)
        batch = graphs.batch([1, 2, 3])
        found = model(batch, torch.randn(len(batch.rows), 8, device=device, requires_grad=True))
        (found if isinstance(found, torch.Tensor) else found[0]).sum().backward()
    say(True, "ran")


def padded(tensor, rows):
    made = tensor.detach().new_zeros(rows, tensor.shape[1])
    made[: len(tensor)] = tensor.detach()
    return made.requires_grad_(tensor.requires_grad)


def main():
    what, device, *words = sys.argv[1:]
    checks = {"errors": errors, "bits": bits, "captured": captured, "loader": loader, "optimizers": optimizers, "small": small}
    checks[what](device, *(words if what == "errors" else map(int, words)))


if __name__ == "__main__":
    main()
