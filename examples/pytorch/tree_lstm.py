"""A Tree-LSTM as a vertex net, which learns expressions' values; no linear model can.

    python tree_lstm.py --train

The net is the N-ary Tree-LSTM (Tai et al., ACL 2015, equations 9 to 14) for two children, with words at the leaves.
dynamic_nets.py times it beside the same in plain PyTorch.
"""

import argparse
import itertools
import sys
import time

import torch
import torch.nn.functional as F
import ucudnn

import tree_baselines
from structures import SEED
from trees import WORDS, bits, linear_accuracy, random_trees, random_words


class TreeLSTM(tree_baselines.TreeLSTM):
    """The same parameters. x [rows of the batch, width]; returns h [vertices of the batch, hidden]."""

    def __init__(self, width, hidden):
        super().__init__(width, hidden)
        self.net = self.vertex_net(lambda v: v.pull("x", width), lambda v, h: v.push(h=h))

    def vertex_net(self, word, push, loss=None):
        """The net: word(v) is x of a leaf, and push(v, h) hands on to the outside."""

        def finish(v, c, o):
            h = o.sigmoid() * c.tanh()
            v.scatter(h=h, c=c)
            push(v, h)

        def leaf(v):
            i, o, u = v.linear("W", word(v)).chunk(3)
            finish(v, i.sigmoid() * u.tanh(), o)

        def node(v):
            left, right = v.gather(0), v.gather(1)
            i, o, u, f, g = v.linear("U", v.concat([left.h, right.h])).chunk(5)
            finish(v, i.sigmoid() * u.tanh() + f.sigmoid() * left.c + g.sigmoid() * right.c, o)

        states, functions = {"h": self.hidden, "c": self.hidden}, {0: leaf, 2: node}
        return ucudnn.VertexNet(states=states, functions=functions, parameters=self, loss=loss)

    def forward(self, batch, x):
        return self.net(batch, x=x).h


# A net that has learnt gets more of unseen trees' roots right; counts of words get some 60%.
LEARNT = 0.9
TRAINED_AT_ONCE, WIDTH, HIDDEN = 64, 16, 64


def train(options):
    """Learns the bit of each vertex: at the leaves of the word, above of both parts by the operation that their first
    word names. Returns 0 if it has."""
    trees = random_trees()
    words = random_words(trees)
    labels, roots = bits(trees, words), trees.first[1:] - 1
    graphs = ucudnn.Graphs(trees.children, counts=trees.counts, rows="leaves")
    torch.manual_seed(SEED)
    embedding, model, head = torch.nn.Embedding(WORDS, WIDTH), TreeLSTM(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, 2)
    parameters = [parameter for module in (embedding, model, head) for parameter in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)

    def run(batch, words_of_batch):
        return head(model(batch, embedding(words_of_batch)))

    seen = len(graphs) * 4 // 5
    batches = graphs.loader(
        TRAINED_AT_ONCE, sampler=torch.utils.data.SubsetRandomSampler(range(seen)),
        collate_fn=lambda batch: (batch, words[batch.rows], labels[batch.vertices]),
    )  # fmt: skip
    samples = itertools.chain.from_iterable(itertools.repeat(batches))
    begin = time.perf_counter()
    for number, (batch, its_words, of_vertices) in enumerate(itertools.islice(samples, options.steps), 1):
        scores = run(batch, its_words)
        loss = F.cross_entropy(scores, of_vertices)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 10 == 0:
            accuracy = (scores.argmax(1) == of_vertices).float().mean()
            print(f"step {number:4}: loss {loss:.4f}, {accuracy:6.1%} of the vertices right, "
                  f"{time.perf_counter() - begin:.1f} s", flush=True)  # fmt: skip
    with torch.no_grad():
        unseen = torch.arange(seen, len(graphs))
        batch = graphs.batch(unseen)
        scores = run(batch, words[batch.rows])
    accuracy = (scores[batch.roots].argmax(1) == labels[roots[unseen]]).float().mean().item()
    linear, common = linear_accuracy(trees, words, labels[roots])
    print(f"roots of unseen trees: {accuracy:.1%} right; a linear model of their words {linear:.1%}, the commoner bit "
          f"{common:.1%}")  # fmt: skip
    if accuracy <= LEARNT:
        print(f"it has not learnt: more than {LEARNT:.0%} were expected", file=sys.stderr)
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", required=True, help="dynamic_nets.py times the net")
    parser.add_argument("--steps", type=int, default=150, help="of training [150]")
    return train(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
