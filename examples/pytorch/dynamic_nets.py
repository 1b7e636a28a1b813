"""Nets over graphs, beside the same in plain PyTorch, in turns: forward and backward, or inference.

    python dynamic_nets.py --net lstm --device cpu --threads 2

The nets are those of Cavs (Xu et al., USENIX ATC 2018), more of VPPS's (Khorasani et al., MICRO 2018), and one over
circuits:

    tree-lstm   the Tree-LSTM of tree_lstm.py, on random trees as large as the parses of a treebank
    rvnn        a recursive net, on the same trees
    tree-fc     the same net, a fully connected layer at each inner vertex, on complete trees
    lstm        a variable-length LSTM, on chains as long as a treebank's sentences
    bilstm      an LSTM from the left and one from the right, as taggers have, on the same sentences
    bilstm-char the same, where a word that comes seldom is made of its characters, by LSTMs from the left and the right
    td-rnn      the recursive net as a time-delay net, on sequences of 5 to 20 words
    td-lstm     the Tree-LSTM as a time-delay net, on the same sequences
    dag-gru     ucudnn.nn.DagGRU, on random circuits of 40 to 200 gates

The time-delay nets are after VPPS's description: words are level 0, and vertex t of a level combines the vertices t and
t + 1 of the one below, until one is left. All levels have the same weights. In td-rnn, h = tanh(W [h_t; h_t+1] + b),
and a word's h is x. In td-lstm, both are the children of a Tree-LSTM's vertex, and words are its leaves.

The methods are `ucudnn`, ours, also captured in CUDA graphs, and PyTorch's in METHODS, which tree_baselines.py and
dynamic_rivals.py describe. `ucudnn one by one`, a call for each graph, shows what batching is worth. It runs if --methods
names it, and so does DyNet (dynet_rivals.py). Before anything is timed, each method's results are held against double precision.
"""

import argparse
import functools
import json
import pathlib
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import ucudnn

import dynamic_rivals
import finds_harness  # noqa: F401
import timing
import tree_baselines
from dynet_rivals import DYNET, lstm_cell, tree_lstm_cell, with_dynet
from structures import (
    LEAVES, SEED, Structures, both_ways, complete_trees, random_chains, random_circuits, random_pyramids, recursion,
    spelled_sentences,
)  # fmt: skip
from timing import OURS, Method
from tree_lstm import TreeLSTM
from trees import random_trees

from harness import calls

METHODS = {
    "E": "eager, level by level", "C": "E by torch.compile", "B": "by hand, states in one tensor",
    "G": "CUDA graphs of padded batches", "GC": "G by torch.compile",
}  # fmt: skip


ONE_BY_ONE = f"{OURS} one by one"


# torch.nn.LSTM's parameters of its directions end so.
ENDS = ("l0", "l0_reverse")


def lstm_states(v, parameters, x, before=None):
    """h and c of a word; `before` has those of the word before."""
    gates = v.bias(parameters.format("bias_ih"), v.matmul(parameters.format("weight_ih"), x))
    if before:
        gates = gates + v.matmul(parameters.format("weight_hh"), before[0])
    i, f, g, o = v.bias(parameters.format("bias_hh"), gates).chunk(4)
    c = i.sigmoid() * g.tanh()
    if before:
        c = c + f.sigmoid() * before[1]
    return o.sigmoid() * c.tanh(), c


class LSTM(torch.nn.Module):
    """torch.nn.LSTM's parameters. x [rows of the batch, width]; returns h [vertices of the batch, hidden].

    Both ways, the graphs are both_ways()'s. There each word has two vertices side by side, with functions and weights
    of their own: h.view(-1, 2 * hidden) has both directions of each word, as torch.nn.LSTM's output."""

    def __init__(self, width, hidden, bidirectional=False):
        super().__init__()
        self.lstm = torch.nn.LSTM(width, hidden, bidirectional=bidirectional)

        def word(v, end, has_before):
            before = v.gather(0) if has_before else None
            h, c = lstm_states(v, f"lstm.{{}}_{end}", v.pull("x", width), before and (before.h, before.c))
            v.scatter(h=h, c=c)
            v.push(h=h)

        functions = [(int(has_before), functools.partial(word, end=end, has_before=has_before))
                     for end in ENDS[: 1 + bidirectional] for has_before in (False, True)]  # fmt: skip
        self.net = ucudnn.VertexNet({"h": hidden, "c": hidden}, functions, self)

    def forward(self, batch, x):
        return self.net(batch, x=x).h


class SpelledLSTM(torch.nn.Module):
    """A tagger's LSTM both ways, over structures.spelled_sentences(), after VPPS's BiLSTMwChar. A word that is spelled out
    has no row of x, but a layer of the last h of both LSTMs over its characters. x [rows of the batch, hidden]; returns h
    [vertices of the batch, hidden]."""

    def __init__(self, hidden):
        super().__init__()
        self.lstm, self.characters = (torch.nn.LSTM(hidden, hidden, bidirectional=True) for _ in range(2))
        self.spelling = torch.nn.Linear(2 * hidden, hidden)

        def vertex(v, parameters, has_before, is_spelled=False):
            before = v.gather(0) if has_before else None
            ends = [v.gather(slot).h for slot in (1, 2)] if is_spelled else []
            x = v.linear("spelling", v.concat(ends)) if is_spelled else v.pull("x", hidden)
            h, c = lstm_states(v, parameters, x, before and (before.h, before.c))
            v.scatter(h=h, c=c)
            v.push(h=h)

        kinds = [(0, {"has_before": False}), (3, {"has_before": True})]
        functions = [(slots, functools.partial(vertex, parameters=f"{name}.{{}}_{end}", **how))
                     for name, more in (("lstm", [(3, {"has_before": True, "is_spelled": True})]), ("characters", []))
                     for end in ENDS for slots, how in kinds + more]  # fmt: skip
        self.net = ucudnn.VertexNet({"h": hidden, "c": hidden}, functions, self)

    def forward(self, batch, x):
        return self.net(batch, x=x).h


def spelled_net():
    graphs, of_all = spelled_sentences()
    return Net(graphs, SpelledLSTM, dynamic_rivals.spelled_vertex, functools.partial(dynamic_rivals.spelled_rivals, of_all),
               (1, 8, 32, 128))  # fmt: skip


class RvNN(torch.nn.Module):
    """A recursive net (Socher et al., ICML 2011): h = tanh(W [h_left; h_right] + b), and at the leaves x. On complete
    trees it is Tree-FC. x [leaves of the batch, hidden]; returns h [vertices of the batch, hidden]."""

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

    def __init__(self, graphs, name=OURS):
        super().__init__(name, graphs.batch, lambda model, ids, x: model(graphs.batch(ids), x))
        self.graphs = graphs

    def batches(self, id_lists):
        super().batches(id_lists)
        return id_lists


class OneByOne(Ours):
    """Our net, a call for each graph."""

    def __init__(self, graphs, name=ONE_BY_ONE):
        super().__init__(graphs, name)
        self.forward = self.each

    def each(self, model, ids, x):
        batches = [self.graphs.batch([one]) for one in ids]
        parts = x.split([len(batch.rows) for batch in batches])
        return torch.cat([model(batch, part) for batch, part in zip(batches, parts, strict=True)])


class Captured(Method):
    """Our net in one CUDA graph, which serves all batches: a run sets the batch, copies its inputs and replays. Without
    CUDA there is no graph, and the net runs as it is."""

    def __init__(self, graphs, name=f"{OURS} captured"):
        super().__init__(name, None, lambda model, batch, x: model(batch, x))
        self.graphs = graphs

    def batches(self, id_lists):
        self.static, self.inputs = self.graphs.batch(id_lists[0], static=self.most_vertices(id_lists)), None
        return id_lists

    def most_vertices(self, id_lists):
        return max(len(self.graphs.batch(ids).vertices) for ids in id_lists)

    def warm(self, model, ids, *inputs):
        """The first run captures."""
        if self.inputs:
            return
        rows = self.static.most_vertices
        inputs = self.read(inputs)
        self.inputs = [tensor.new_zeros(rows, *tensor.shape[1:]) for tensor in inputs]
        self.inputs[0].requires_grad_(inputs[0].requires_grad)
        self.load(ids, *inputs)
        self.recorded = tree_baselines.Recorded(functools.partial(self.compute, model), inputs[0].is_cuda)

    def compute(self, model):
        """What is captured."""
        x, *dh = self.inputs
        return super().run(model, self.static, x, *(dh or [None]))

    def read(self, inputs):
        """Those that a run reads. In inference there is no gradient of h."""
        return inputs[:1] if self.is_inference else inputs

    def load(self, ids, *inputs):
        self.static.set(ids)
        self.copy(*inputs)

    def copy(self, *inputs):
        """Copies the inputs of the batch to where the captured run has them."""
        with torch.no_grad():
            for to, tensor in zip(self.inputs, self.read(inputs), strict=True):
                to[: len(tensor)] = tensor

    def run(self, model, ids, x, dh):
        self.load(ids, x, dh)
        self.recorded.replay()
        h, *others = self.recorded.result
        return [h[: len(dh)], *(dx[: len(x)] for dx in others[:1]), *others[1:]]


@dataclass
class Net:
    """What is timed: our module, made for a width, over graphs; `vertex` is its formula, for `recursion`."""

    structures: Structures
    model: Callable
    vertex: Callable
    rivals: Callable
    counts: tuple  # of graphs in a batch
    timed: str = "forward and backward"
    is_inference: bool = False

    def __post_init__(self):
        made = self.structures
        self.graphs = ucudnn.Graphs(made.children, counts=made.counts, rows=made.rows, kinds=made.kinds)

    def inputs(self, ids, options):
        return timing.random_numbers(self.graphs, ids, options)

    def exact(self, model, ids, x):
        """h of all vertices, one vertex at a time."""
        return recursion(self.structures, ids, x, functools.partial(self.vertex, model))

    def expected(self, model, ids, x, dh):
        plain = Method("exact", None, self.exact)
        plain.is_inference = self.is_inference
        return plain.run(model, ids, x.detach().double().requires_grad_(), dh.double())

    def methods(self, device):
        """All that there are, ours first."""
        ours = [Ours(self.graphs), Captured(self.graphs), OneByOne(self.graphs)]
        return [*ours, *self.rivals(self.structures, device)]


def square(model):
    return lambda hidden: model(hidden, hidden)


NETS = {
    "tree-lstm": lambda _: Net(random_trees(), square(TreeLSTM), tree_baselines.vertex,
                               with_dynet(tree_baselines.rivals, tree_lstm_cell), (1, 8, 32, 128, 256)),
    "rvnn": lambda _: Net(random_trees(), RvNN, dynamic_rivals.rvnn_vertex, dynamic_rivals.rvnn_rivals, (1, 8, 32, 128)),
    "tree-fc": lambda options: Net(complete_trees(leaves=options.leaves), RvNN, dynamic_rivals.rvnn_vertex,
                                   dynamic_rivals.tree_fc_rivals, (1, 8, 32, 64)),
    "lstm": lambda options: Net(random_chains(words=options.words), square(LSTM), dynamic_rivals.lstm_vertex,
                                with_dynet(dynamic_rivals.lstm_rivals, lstm_cell), (1, 8, 32, 128, 256)),
    "bilstm": lambda options: Net(both_ways(random_chains(words=options.words)),
                                  square(functools.partial(LSTM, bidirectional=True)), dynamic_rivals.lstm_vertex,
                                  functools.partial(dynamic_rivals.lstm_rivals, directions=2), (1, 8, 32, 128)),
    "bilstm-char": lambda _: spelled_net(),
    "td-rnn": lambda _: Net(random_pyramids(), RvNN, dynamic_rivals.rvnn_vertex, dynamic_rivals.td_rnn_rivals,
                            (1, 8, 32, 128)),
    "td-lstm": lambda _: Net(random_pyramids(), square(TreeLSTM), tree_baselines.vertex, dynamic_rivals.td_lstm_rivals,
                             (1, 8, 32, 128)),
    "dag-gru": lambda _: Net(random_circuits(), square(ucudnn.nn.DagGRU), dynamic_rivals.dag_gru_vertex,
                             dynamic_rivals.dag_gru_rivals, (1, 8, 32, 128)),
}  # fmt: skip


def chosen(methods, options):
    """The methods that are named, or those that are timed if none is."""
    if options.methods:
        return [method for method in methods if method.name in options.methods]
    device = options.device
    # E is the faster one of these two. Without CUDA there are no graphs, and there torch.compile needs a compiler.
    left_out = {"chunked", "growing", ONE_BY_ONE, DYNET}
    if options.in_a_row == 1:
        left_out |= {method.name for method in methods if method.is_for_rows}
    if device == "cpu":
        left_out |= {"G", "GC", *(method.name for method in methods if isinstance(method, Captured))}
    if device == "cpu" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        left_out.add("C")
    return [method for method in methods if method.name not in left_out]


def is_supported(method, net, model, options):
    """Whether our method runs on the device. If not, says why."""
    try:
        (batch,) = method.batches([[0]])
        method.results(model, batch, *net.inputs([0], options))
    except ucudnn.NotSupported as refused:
        print(f"{OURS}: {refused}", flush=True)
        return False
    return True


class Comparison:
    """The ways to compute a net of one width."""

    def __init__(self, net, methods, options):
        self.net, self.options = net, options
        torch.manual_seed(SEED)
        dtype, allows_tf32, _ = timing.TYPES[options.type]
        # cuDNN computes in TF32 by default, where products do not.
        calls.allow_tf32(allows_tf32)
        self.model = net.model(options.hidden).to(options.device, dtype)
        self.everyone = chosen(methods, options)
        ours = [method for method in self.everyone if timing.is_ours(method.name)]
        if ours and not is_supported(ours[0], net, self.model, options):
            self.everyone = [method for method in self.everyone if method not in ours]
        self.eager = next(method for method in methods if method.name == "E")

    def is_right(self):
        """Prints what is timed. Returns whether there is something, and all results are right."""
        options = self.options
        if not self.everyone:
            return False
        print(f"{options.net}, PyTorch {torch.__version__} on {options.device}, {torch.get_num_threads()} threads; H = "
              f"{options.hidden}, {options.type}; {self.net.timed}, median (quartiles) of {options.rounds} "
              f"{'batches' if options.in_a_row == 1 else f'times {options.in_a_row} batches in a row'}")  # fmt: skip
        if letters := [f"{method.name}: {METHODS[method.name]}" for method in self.everyone if method.name in METHODS]:
            print("; ".join(letters))
        say("checking results")
        is_right = timing.check(self.everyone, self.eager, self.net, self.model, options)
        if not is_right:
            print("some results are wrong; nothing is timed")
        return is_right

    def timings(self):
        for count in self.options.batches or self.net.counts:
            say(f"H = {self.options.hidden}, batches of {count}")
            yield timing.Timing(self.everyone, count, self.net, self.model, self.options)

    def parameters(self):
        return sum(parameter.numel() for parameter in self.model.parameters())


def compare(net, options):
    """Times the net in all widths, or if it is to wait, makes all ready first."""
    rows, waiting, status = [], [], 0
    for hidden in options.hidden:
        of_width = argparse.Namespace(**vars(options) | {"hidden": hidden})
        comparison = Comparison(net, made_methods(net, options), of_width)
        if not comparison.is_right():
            status = 1
            continue
        for one in comparison.timings():
            if options.waits:
                one.prepare()
                waiting.append((one, comparison.parameters()))
            else:
                add_row(rows, one, comparison.parameters(), options)
    if options.waits:
        print("ready", flush=True)
        sys.stdin.readline()
        for one, parameters in waiting:
            add_row(rows, one, parameters, options)
    return status


def add_row(rows, one, parameters, options):
    """Measures, prints and keeps a row."""
    rows.append({"parameters": parameters} | one.measure())
    timing.show(rows[-1])
    if options.json:
        facts = {"net": options.net, "timed": one.net.timed, "torch": torch.__version__, "device": options.device}
        facts |= {"threads": torch.get_num_threads(), "type": options.type, "rounds": options.rounds}
        written = pathlib.Path(f"{options.json}.new")
        written.write_text(json.dumps({**facts, "rows": rows}, indent=1), encoding="utf-8")
        written.replace(options.json)  # which is whole at any time


def say(text):
    """Progress, apart from results."""
    print(text, file=sys.stderr, flush=True)


def at_least(least):
    def number(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{least} or more are accepted, not {text!r}")
        return int(text)

    return number


def power_of_two(text):
    number = at_least(2)(text)
    if number & (number - 1):
        raise argparse.ArgumentTypeError(f"a power of two is accepted, not {text!r}")
    return number


def several(one):
    return lambda text: [one(part) for part in text.split(",")]


def arguments(described):
    """A parser of what all nets take."""
    parser = argparse.ArgumentParser(description=described.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="[cpu]")
    parser.add_argument("--threads", type=at_least(1), help="of the CPU")
    parser.add_argument("--type", default="float", choices=timing.TYPES, help="of numbers [float]")
    parser.add_argument("--hidden", type=several(at_least(1)), default=[256], help="widths of inputs and states [256]")
    parser.add_argument("--batches", type=several(at_least(1)), help="numbers of graphs, such as 1,8,32")
    parser.add_argument("--rounds", type=at_least(3), default=20, help="batches that are timed [20]")
    parser.add_argument("--in-a-row", type=at_least(1), default=1, help="batches whose runs are timed as one, for each [1]")
    parser.add_argument("--methods", type=several(str), help=f"such as {OURS},E,C [all that run]")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--waits", action="store_true",
                        help="make all ready, say so, and time when a line comes on the standard input")  # fmt: skip
    return parser


def start(parser, options, made):
    """Compares the ways to compute the net that made() returns."""
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; --device cpu tries the script without one")
    net = made()
    names = [method.name for method in made_methods(net, options)]
    for name in options.methods or []:
        if name not in names:
            parser.error(f"--methods: {name} is none of {options.net}'s: {','.join(names)}")
    most = len(net.graphs)
    if max(options.batches or net.counts) > most:
        parser.error(f"--batches: {options.net} has {most} graphs; 1 to {most} are accepted")
    if options.threads:
        torch.set_num_threads(options.threads)
    return compare(net, options)


def made_methods(net, options):
    """New ones for each width: some keep what they have captured."""
    methods = net.methods(options.device)
    for method in methods:
        method.is_inference = net.is_inference
    return methods


def main():
    parser = arguments(__doc__)
    parser.add_argument("--net", default="tree-lstm", choices=NETS, help="[tree-lstm]")
    parser.add_argument("--leaves", type=power_of_two, default=LEAVES, help=f"of each tree of tree-fc [{LEAVES}]")
    parser.add_argument("--words", type=at_least(1), help="of each sentence of lstm and bilstm [as a treebank's]")
    parser.add_argument("--inference", action="store_true", help="forward alone, without gradients")
    options = parser.parse_args()
    if options.leaves != LEAVES and options.net != "tree-fc":
        parser.error("--leaves: tree-fc alone takes them")
    if options.words and options.net not in ("lstm", "bilstm"):
        parser.error("--words: lstm and bilstm alone take them")

    def made():
        net = NETS[options.net](options)
        if options.inference:
            net.is_inference, net.timed = True, "inference"
        return net

    return start(parser, options, made)


if __name__ == "__main__":
    sys.exit(main())
