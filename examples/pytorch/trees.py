"""Random binary trees as large as the parses of a treebank, and a task on them; `python trees.py` prints what they are.

The Stanford Sentiment Treebank has 8,544 training sentences; the numbers of leaves are spread as its sentences' lengths
are, and the shapes lean to the right as parses do. Nothing is read from a file: a seed decides all.
"""

import random
from typing import NamedTuple

import torch

TREES = 8544
LEAVES_SHAPE, LEAVES_MEAN, LEAVES_LEAST, LEAVES_MOST = 4.25, 19.14, 2, 52
# How often a span splits off its first word.
FIRST_ALONE = 0.6
# A word's bit and its operation; each of the six kinds of words has as many synonyms.
OPERATIONS, SYNONYMS = 3, 4
WORDS = 2 * OPERATIONS * SYNONYMS


class Trees(NamedTuple):
    """Trees one behind the other. Vertices are numbered within their tree: a vertex comes behind all vertices of its left
    child, then all of its right one (post-order), so the root is the last, and leaves have the order of the words."""

    first: torch.Tensor  # [trees + 1] int64: each tree's first vertex among all, and the number of all
    children: torch.Tensor  # [vertices, 2] int32: the children's numbers in the tree, left and right; -1, -1 at a leaf

    @property
    def counts(self):
        """[trees] The number of vertices of each tree."""
        return self.first.diff()

    def heights(self):
        """[vertices] The longest way down to a leaf, in edges: 0 at a leaf."""
        found = []
        for first, end in zip(self.first.tolist(), self.first.tolist()[1:]):
            for left, right in self.children[first:end].tolist():
                found.append(0 if left < 0 else 1 + max(found[first + left], found[first + right]))
        return torch.tensor(found)


def random_trees(count=TREES, seed=1):
    source = random.Random(seed)
    first, children = [0], []

    def grow(leaves):
        """Appends a span's vertices, and returns the number of the last one in its tree."""
        if leaves == 1:
            children.append((-1, -1))
        else:
            left = 1 if source.random() < FIRST_ALONE else source.randint(1, leaves - 1)
            children.append((grow(left), grow(leaves - left)))
        return len(children) - 1 - first[-1]

    for _ in range(count):
        leaves = round(source.gammavariate(LEAVES_SHAPE, LEAVES_MEAN / LEAVES_SHAPE))
        grow(min(max(leaves, LEAVES_LEAST), LEAVES_MOST))
        first.append(len(children))
    return Trees(torch.tensor(first), torch.tensor(children, dtype=torch.int32))
