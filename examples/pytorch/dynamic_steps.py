"""Whole steps of training a Tree-LSTM, in one call and in plain PyTorch, in turns.

    python dynamic_steps.py --device cuda

The task is as sentiment on a treebank: words at the leaves, and one of 5 classes at each vertex. Trees are as large as
the treebank's parses; words and labels are random. A step is: the embedding of the words, the N-ary Tree-LSTM of
tree_lstm.py, a linear head on h of all vertices, the mean cross-entropy, all gradients, and gradient descent.

    ucudnn step            one call of net.step; the embedding and the head are in the net
    ucudnn step captured   the same in one CUDA graph, which serves all batches
    ucudnn step loader, ucudnn step captured loader
                           the same with batches from a loader, which makes the next one meanwhile. They are timed with
                           --in-a-row: as many steps follow each other, and the device is waited for behind the last one
    ucudnn                 our net; the embedding, the head, the loss and the optimizer are PyTorch's
    E, C                   all PyTorch's, eager and compiled; tree_baselines.py describes them

On a GPU, PyTorch's optimizer is the fused one. On a CPU, the gradient of PyTorch's embedding is sparse: with 20,000
words, a dense one costs more than the net at small batches.

Before anything is timed, a step by each method is held against double precision: the loss, and of each parameter the
difference that the step makes. There the rate is 2^14, so that differences are larger than the parameters' rounding.
"""

import contextlib
import functools
import itertools
import sys

import torch
import torch.nn.functional as F

import dynamic_nets
import tree_baselines
import tree_lstm
from dynamic_nets import Captured, Net, Ours, at_least
from timing import OURS, Method
from trees import random_trees

CLASSES = 5
RATE, CHECKED_RATE = 0.01, 2.0**14
STEP = f"{OURS} step"


class Classifier(tree_lstm.TreeLSTM):
    """Its `net` takes x [rows of the batch, hidden] and gives h [vertices of the batch, hidden]. `whole`, which is for
    step(), has the embedding and the head too: it takes words [rows] int64 and gives scores [vertices, CLASSES]."""

    def __init__(self, words, is_sparse, hidden):
        super().__init__(hidden, hidden)
        self.embedding = torch.nn.Embedding(words, hidden, sparse=is_sparse)
        self.head = torch.nn.Linear(hidden, CLASSES)
        self.whole = self.vertex_net(lambda v: v.lookup("embedding.weight", v.pull_index("words")),
                                     lambda v, h: v.push(scores=v.linear("head", h)), loss="scores")  # fmt: skip

    @functools.cached_property
    def optimizer(self):
        return torch.optim.SGD(self.parameters(), RATE, fused=self.W.weight.is_cuda)


@contextlib.contextmanager
def kept(model):
    """The parameters before, which they are again in the end."""
    before = [parameter.detach().clone() for parameter in model.parameters()]
    yield before
    with torch.no_grad():
        for parameter, old in zip(model.parameters(), before, strict=True):
            parameter.copy_(old)


class Step(Method):
    """PyTorch's embedding, head, loss and optimizer; forward(model, batch, x) returns h. A run returns the loss."""

    rate = RATE

    def run(self, model, batch, words, labels):
        model.optimizer.param_groups[0]["lr"] = self.rate
        model.zero_grad()
        loss = F.cross_entropy(model.head(self.forward(model, batch, model.embedding(words))), labels)
        loss.backward()
        model.optimizer.step()
        return loss

    def results(self, model, batch, *inputs):
        """The loss, and what the step adds to each parameter."""
        self.rate = CHECKED_RATE
        self.warm(model, batch, *inputs)
        with kept(model) as before:
            loss = torch.as_tensor(self.run(model, batch, *inputs))
            added = [new.detach().double() - old for new, old in zip(model.parameters(), before, strict=True)]
        self.rate = RATE
        return [loss, *added]


class OursAndStep(Ours, Step):
    """Our net, and PyTorch's others."""


class OneCall(Ours, Step):
    def run(self, model, ids, words, labels):
        return model.whole.step(self.prepare(ids), words=words, labels=labels, lr=self.rate)


class CapturedCall(Captured, Step):
    """The call in a CUDA graph. batches() forgets the graph, which holds the rate."""

    optimizer = None

    def warm(self, model, ids, *inputs):
        if not self.inputs:
            with kept(model):
                super().warm(model, ids, *inputs)

    def compute(self, model):
        words, labels = self.inputs
        labels = labels if labels.is_cuda else labels[: len(self.static.vertices)]
        return model.whole.step(self.static, words=words, labels=labels, lr=self.rate, optimizer=self.optimizer)

    def run(self, model, ids, *inputs):
        self.load(ids, *inputs)
        self.recorded.replay()
        return self.recorded.result


class FromLoader(OneCall):
    """The call, with batches from a loader, which begins with the row."""

    is_for_rows = True

    def batches(self, id_lists):
        self.ids = []
        self.loader = self.graphs.loader(len(id_lists[0]), sampler=self.ids)
        return id_lists

    def warm(self, model, ids, *inputs):
        pass

    def run(self, model, ids, *inputs):
        return self.run_in_a_row(model, [ids], [inputs])

    def run_in_a_row(self, model, id_lists, inputs):
        self.ids[:] = itertools.chain.from_iterable(id_lists)
        for batch, (words, labels) in zip(self.loader, inputs, strict=True):
            loss = model.whole.step(batch, words=words, labels=labels, lr=self.rate)
        return loss


class CapturedFromLoader(CapturedCall):
    """The call in a CUDA graph for each static batch of a loader."""

    is_for_rows = True

    def batches(self, id_lists):
        self.ids = []
        self.loader = self.graphs.loader(len(id_lists[0]), sampler=self.ids, static=self.most_vertices(id_lists))
        self.calls = {}
        for batch in self.loader.batches:
            call = self.calls[batch] = CapturedCall(self.graphs)
            call.static, call.inputs = batch, None
        return id_lists

    def warm(self, model, ids, *inputs):
        for call in self.calls.values():
            call.rate = self.rate
            call.warm(model, ids, *inputs)

    def run(self, model, ids, *inputs):
        return self.run_in_a_row(model, [ids], [inputs])

    def run_in_a_row(self, model, id_lists, inputs):
        self.ids[:] = itertools.chain.from_iterable(id_lists)
        for batch, its in zip(self.loader, inputs, strict=True):
            call = self.calls[batch]
            call.copy(*its)
            call.recorded.replay()
        return call.recorded.result


class Steps(Net):
    """`words` is the number of different ones."""

    def __init__(self, words, device):
        model = functools.partial(Classifier, words, device == "cpu")
        super().__init__(random_trees(), model, tree_baselines.vertex, tree_baselines.rivals, (1, 8, 32, 128),
                         f"a step with {words} words")  # fmt: skip
        self.words = words

    def methods(self, device):
        ours = [OneCall(self.graphs, STEP), CapturedCall(self.graphs, f"{STEP} captured"),
                FromLoader(self.graphs, f"{STEP} loader"), CapturedFromLoader(self.graphs, f"{STEP} captured loader"),
                OursAndStep(self.graphs)]  # fmt: skip
        rivals = [Step(rival.name, rival.prepare, rival.forward)
                  for rival in self.rivals(self.structures, device) if rival.name in ("E", "C")]  # fmt: skip
        return ours + rivals

    def inputs(self, ids, options):
        """Words [rows] and labels [vertices] of a batch."""
        batch = self.graphs.batch(ids)
        return [torch.randint(most, (len(rows),), device=options.device)
                for most, rows in ((self.words, batch.rows), (CLASSES, batch.vertices))]  # fmt: skip

    def expected(self, model, ids, words, labels):
        loss = F.cross_entropy(model.head(self.exact(model, ids, model.embedding(words))), labels)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        return [loss.detach(), *(-CHECKED_RATE * gradient.to_dense() for gradient in gradients)]


def main():
    parser = dynamic_nets.arguments(__doc__)
    parser.add_argument("--words", type=at_least(1), default=20_000, help="different ones [20000]")
    parser.set_defaults(net="tree-lstm step")
    options = parser.parse_args()
    return dynamic_nets.start(parser, options, lambda: Steps(options.words, options.device))


if __name__ == "__main__":
    sys.exit(main())
