"""Graphs that nets compute over, made from seeds: chains as long as sentences, complete trees, and random circuits.

`python structures.py` prints what they are. trees.py has random trees.
"""

import itertools
import random
from typing import NamedTuple

import torch

SEED = 4
# The Stanford Sentiment Treebank has 8,544 training sentences; lengths are spread as theirs are.
SENTENCES = 8544
LENGTH_SHAPE, LENGTH_MEAN, LENGTH_LEAST, LENGTH_MOST = 4.25, 19.14, 2, 52
# The leaves of each tree of Tree-FC (Xu et al., "Cavs", USENIX ATC 2018, section 5).
LEAVES, COMPLETE_TREES = 256, 256
CIRCUITS, INPUTS, GATES = 2048, (8, 16), (40, 200)


class Structures(NamedTuple):
    """Graphs one behind the other. Vertices are numbered within their graph, children before their parents."""

    first: torch.Tensor  # [graphs + 1] int64: each graph's first vertex among all, and the number of all
    children: torch.Tensor  # [vertices, slots] int32: the children's numbers in the graph; -1 alone at a leaf

    @property
    def counts(self):
        """[graphs] The number of vertices of each graph."""
        return self.first.diff()

    def heights(self):
        """[vertices] The longest way down to a leaf, in edges: 0 at a leaf."""
        found = []
        for first, end in itertools.pairwise(self.first.tolist()):
            for children in self.children[first:end].tolist():
                found.append(1 + max((found[first + child] for child in children if child >= 0), default=-1))
        return torch.tensor(found)


def structures(graphs):
    """Of lists of vertices, each the list of its children."""
    first = [0, *itertools.accumulate(map(len, graphs))]
    children = [row for graph in graphs for row in graph]
    return Structures(torch.tensor(first), torch.tensor(children, dtype=torch.int32))


def sentence_length(source):
    length = round(source.gammavariate(LENGTH_SHAPE, LENGTH_MEAN / LENGTH_SHAPE))
    return min(max(length, LENGTH_LEAST), LENGTH_MOST)


def random_chains(count=SENTENCES, seed=SEED):
    """Sentences: each word's child is the word before it."""
    source = random.Random(seed)
    return structures([[[before] for before in range(-1, sentence_length(source) - 1)] for _ in range(count)])


def complete_trees(count=COMPLETE_TREES, leaves=LEAVES):
    """Complete binary trees, all the same: leaves first, then level by level. `leaves` is a power of two."""
    tree = [[-1, -1]] * leaves + [[2 * number, 2 * number + 1] for number in range(leaves - 1)]
    return structures([tree] * count)


def random_circuits(count=CIRCUITS, seed=SEED):
    """Inputs, then gates, each with two inputs out of all vertices before it."""
    source = random.Random(seed)

    def circuit():
        inputs, gates = source.randint(*INPUTS), source.randint(*GATES)
        return [[-1, -1]] * inputs + [source.sample(range(inputs + number), 2) for number in range(gates)]

    return structures([circuit() for _ in range(count)])


def recursion(structures, ids, x, vertex):
    """The first state of all vertices of the graphs `ids`, one vertex at a time: vertex(rows, children) returns a
    vertex's states. `children` are those of its children, and next(rows) is its row of x."""
    rows, found = iter(x), []
    for first, end in ((structures.first[graph], structures.first[graph + 1]) for graph in ids):
        states = []
        for children in structures.children[first:end].tolist():
            states.append(vertex(rows, [states[child] for child in children if child >= 0]))
        found += [state[0] for state in states]
    return torch.stack(found)


def main():
    for name, made in (("chains", random_chains()), ("trees", complete_trees()), ("circuits", random_circuits())):
        counts = made.counts.tolist()
        heights = torch.tensor([float(heights.max()) for heights in made.heights().split(counts)])
        print(f"{len(counts)} {name}: {sum(counts) / len(counts):.1f} vertices ({min(counts)} to {max(counts)}), "
              f"height {heights.mean():.1f} ({heights.min():.0f} to {heights.max():.0f})")  # fmt: skip


if __name__ == "__main__":
    main()
