"""Nets over graphs, beside the same in plain PyTorch: forward and backward, in turns.

    python dynamic_nets.py --net lstm --device cpu --threads 2

The nets are those of Cavs (Xu et al., USENIX ATC 2018), and one over graphs that are no trees:

    tree-lstm   the Tree-LSTM of tree_lstm.py, on random trees as large as the parses of a treebank
    lstm        a variable-length LSTM, on chains as long as a treebank's sentences
    tree-fc     a fully connected layer at each inner vertex of complete trees of 256 leaves
    dag-gru     ucudnn.nn.DagGRU, on random circuits of 40 to 200 gates

tree_baselines.py and dynamic_rivals.py describe the others. Before anything is timed, each method's results are held
against double precision.
"""

import argparse
import functools
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import ucudnn

import dynamic_rivals
import timing
import tree_baselines
from structures import SEED, Structures, complete_trees, random_chains, random_circuits, recursion
from timing import OURS, Method
from tree_lstm import TreeLSTM
from trees import random_trees


class LSTM(torch.nn.Module):
    """torch.nn.LSTM's parameters. x [rows of the batch, width]; returns h [vertices of the batch, hidden]."""

    def __init__(self, width, hidden):
        super().__init__()
        self.lstm = torch.nn.LSTM(width, hidden)

        def of_x(v):
            return v.bias("lstm.bias_ih_l0", v.matmul("lstm.weight_ih_l0", v.pull("x", width)))

        def finish(v, gates, before=None):
            i, f, g, o = v.bias("lstm.bias_hh_l0", gates).chunk(4)
            c = i.sigmoid() * g.tanh()
            if before:
                c = c + f.sigmoid() * before.c
            h = o.sigmoid() * c.tanh()
            v.scatter(h=h, c=c)
            v.push(h=h)

        def first(v):
            finish(v, of_x(v))

        def word(v):
            before = v.gather(0)
            finish(v, of_x(v) + v.matmul("lstm.weight_hh_l0", before.h), before)

        self.net = ucudnn.VertexNet({"h": hidden, "c": hidden}, {0: first, 1: word}, self)

    def forward(self, batch, x):
        return self.net(batch, x=x).h


class TreeFC(torch.nn.Module):
    """x [leaves of the batch, hidden]; returns h [vertices of the batch, hidden], at the leaves x."""

    def __init__(self, hidden):
        super().__init__()
        self.W = torch.nn.Linear(2 * hidden, hidden)

        def finish(v, h):
            v.scatter(h=h)
            v.push(h=h)

        def leaf(v):
            finish(v, v.pull("x", hidden))

        def node(v):
            finish(v, v.linear("W", v.concat([v.gather(0).h, v.gather(1).h])).tanh())

        self.net = ucudnn.VertexNet({"h": hidden}, {0: leaf, 2: node}, self)

    def forward(self, batch, x):
        return self.net(batch, x=x).h


class Ours(Method):
    """Our net. A run makes its batch, as a training does: the library then finds memory that the last one had."""

    def __init__(self, graphs):
        super().__init__(OURS, graphs.batch, lambda model, ids, x: model(graphs.batch(ids), x))

    def batches(self, id_lists):
        super().batches(id_lists)
        return id_lists


class Captured(Method):
    """Our net in one CUDA graph, which serves all batches: a run sets the batch, copies its inputs and replays. Without
    CUDA there is no graph, and the net runs as it is."""

    def __init__(self, graphs):
        super().__init__(f"{OURS} captured", None, lambda model, batch, x: model(batch, x))
        self.graphs = graphs

    def batches(self, id_lists):
        most = max(len(self.graphs.batch(ids).vertices) for ids in id_lists)
        self.static, self.inputs = self.graphs.batch(id_lists[0], static=most), None
        return id_lists

    def warm(self, model, ids, x, dh):
        """The first run captures."""
        if self.inputs:
            return
        rows = self.static.most_vertices
        self.inputs = [tensor.new_zeros(rows, *tensor.shape[1:]) for tensor in (x, dh)]
        self.inputs[0].requires_grad_()
        self.load(ids, x, dh)
        compute = functools.partial(super().run, model, self.static, *self.inputs)
        if not x.is_cuda:
            self.replay = compute
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                compute()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = compute()
        self.replay = lambda: graph.replay() or found

    def load(self, ids, x, dh):
        self.static.set(ids)
        with torch.no_grad():
            for to, tensor in zip(self.inputs, (x, dh), strict=True):
                to[: len(tensor)] = tensor

    def run(self, model, ids, x, dh):
        self.load(ids, x, dh)
        h, dx, *others = self.replay()
        return [h[: len(dh)], dx[: len(x)], *others]


@dataclass
class Net:
    """What is timed: our module, made for a width, over graphs; `vertex` is its formula, for `recursion`."""

    structures: Structures
    rows: str | None
    model: Callable
    vertex: Callable
    rivals: Callable
    counts: tuple  # of graphs in a batch

    def __post_init__(self):
        self.graphs = ucudnn.Graphs(self.structures.children, counts=self.structures.counts, rows=self.rows)

    def exact(self, model, ids, x):
        """h of all vertices, one vertex at a time."""
        return recursion(self.structures, ids, x, functools.partial(self.vertex, model))

    def methods(self, device):
        """All that there are, ours first."""
        return [Ours(self.graphs), Captured(self.graphs), *self.rivals(self.structures, device)]


def square(model):
    return lambda hidden: model(hidden, hidden)


NETS = {
    "tree-lstm": lambda: Net(random_trees(), "leaves", square(TreeLSTM), tree_baselines.vertex, tree_baselines.rivals,
                             (1, 8, 32, 128, 256)),
    "lstm": lambda: Net(random_chains(), None, square(LSTM), dynamic_rivals.lstm_vertex, dynamic_rivals.lstm_rivals,
                        (1, 8, 32, 128, 256)),
    "tree-fc": lambda: Net(complete_trees(), "leaves", TreeFC, dynamic_rivals.tree_fc_vertex,
                           dynamic_rivals.tree_fc_rivals, (1, 8, 32, 64)),
    "dag-gru": lambda: Net(random_circuits(), None, square(ucudnn.nn.DagGRU), dynamic_rivals.dag_gru_vertex,
                           dynamic_rivals.dag_gru_rivals, (1, 8, 32, 128)),
}  # fmt: skip


def chosen(methods, names, device):
    """The methods of these names, or those that are timed if none is named."""
    if names:
        return [method for method in methods if method.name in names]
    # E is the faster one of these two. Without CUDA there are no graphs, and there torch.compile needs a compiler.
    left_out = {"chunked", "growing"} | ({f"{OURS} captured", "G", "GC"} if device == "cpu" else set())
    if device == "cpu" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        left_out.add("C")
    return [method for method in methods if method.name not in left_out]


def is_supported(net, model, options):
    """Whether our net runs on the device. If not, says why."""
    try:
        x, _ = timing.random_numbers(net.graphs, [0], options)
        model(net.graphs.batch([0]), x)
    except ucudnn.NotSupported as refused:
        print(f"{OURS}: {refused}", flush=True)
        return False
    return True


def compare(net, methods, options):
    torch.manual_seed(SEED)
    dtype, allows_tf32, _ = timing.TYPES[options.type]
    torch.backends.cuda.matmul.allow_tf32 = allows_tf32
    # cuDNN computes in TF32 by default, where products do not.
    torch.backends.cudnn.allow_tf32 = allows_tf32
    model = net.model(options.hidden).to(options.device, dtype)
    everyone = chosen(methods, options.methods, options.device)
    ours = [method for method in everyone if timing.is_ours(method.name)]
    if ours and not is_supported(net, model, options):
        everyone = [method for method in everyone if method not in ours]
    if not everyone:
        return 1
    print(f"{options.net}, PyTorch {torch.__version__} on {options.device}, {torch.get_num_threads()} threads; H = "
          f"{options.hidden}, {options.type}; forward and backward, median (quartiles) of {options.rounds} batches")  # fmt: skip
    say("checking results")
    eager = next(method for method in methods if method.name == "E")
    if not timing.check(everyone, eager, net, model, options):
        print("some results are wrong; nothing is timed")
        return 1
    rows = []
    for count in options.batches or net.counts:
        say(f"timing batches of {count}")
        timing.measure(everyone, count, net, model, options)
        rows.append(timing.row(count, everyone))
        timing.show(rows[-1])
    if options.json:
        facts = {"net": options.net, "torch": torch.__version__, "device": options.device}
        facts |= {"threads": torch.get_num_threads(), "hidden": options.hidden, "type": options.type, "rounds": options.rounds}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**facts, "rows": rows}, file, indent=1)
    return 0


def say(text):
    """Progress, apart from results."""
    print(text, file=sys.stderr, flush=True)


def at_least(least):
    def number(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{least} or more are accepted, not {text!r}")
        return int(text)

    return number


def several(one):
    return lambda text: [one(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", default="tree-lstm", choices=NETS, help="[tree-lstm]")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="[cpu]")
    parser.add_argument("--threads", type=at_least(1), help="of the CPU")
    parser.add_argument("--type", default="float", choices=timing.TYPES, help="of numbers [float]")
    parser.add_argument("--hidden", type=at_least(1), default=256, help="the width of inputs and states [256]")
    parser.add_argument("--batches", type=several(at_least(1)), help="numbers of graphs, such as 1,8,32")
    parser.add_argument("--rounds", type=at_least(3), default=20, help="batches that are timed [20]")
    parser.add_argument("--methods", type=several(str), help=f"such as {OURS},E,C [all that run]")
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; --device cpu tries the script without one")
    net = NETS[options.net]()
    methods = net.methods(options.device)
    names = [method.name for method in methods]
    for name in options.methods or []:
        if name not in names:
            parser.error(f"--methods: {name} is none of {options.net}'s: {','.join(names)}")
    most = len(net.graphs)
    if max(options.batches or net.counts) > most:
        parser.error(f"--batches: {options.net} has {most} graphs; 1 to {most} are accepted")
    if options.threads:
        torch.set_num_threads(options.threads)
    return compare(net, methods, options)


if __name__ == "__main__":
    sys.exit(main())
