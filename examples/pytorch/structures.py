"""Graphs that nets compute over, made from seeds: chains as long as sentences, one way and both ways, also with words
that are spelled out, pyramids over short sentences, complete trees, and random circuits.

`python structures.py` prints what they are. trees.py has random trees.
"""

import functools
import itertools
import random
from typing import NamedTuple

import torch

SEED = 4
# The Stanford Sentiment Treebank has 8,544 training sentences; lengths are spread as theirs are.
SENTENCES = 8544
LENGTH_SHAPE, LENGTH_MEAN, LENGTH_LEAST, LENGTH_MOST = 4.25, 19.14, 2, 52
# Taggers spell out the words that a corpus has seldom: one of so many, and one in each sentence at the least.
TAGGED, SELDOM, CHARACTERS = 2048, 8, (3, 12)
# The leaves of each tree of Tree-FC (Xu et al., "Cavs", USENIX ATC 2018, section 5).
LEAVES, COMPLETE_TREES = 256, 256
CIRCUITS, INPUTS, GATES = 2048, (8, 16), (40, 200)
# A pyramid over n words has n (n + 1) / 2 vertices.
PYRAMIDS, WORDS = 2048, (5, 20)


class Structures(NamedTuple):
    """Graphs one behind the other. Vertices are numbered within their graph. Rows and kinds are ucudnn.Graphs's."""

    first: torch.Tensor  # [graphs + 1] int64: each graph's first vertex among all, and the number of all
    children: torch.Tensor  # [vertices, slots] int32: the children's numbers in the graph; -1 alone at a leaf
    rows: str | torch.Tensor | None = None  # the row of x of each vertex in the graph; None: each its own; "leaves"
    kinds: torch.Tensor | None = None  # [vertices] the number of each vertex's function; None: its slots decide

    @property
    def counts(self):
        """[graphs] The number of vertices of each graph."""
        return self.first.diff()

    def heights(self):
        """[vertices] The longest way down to a leaf, in edges: 0 at a leaf. Children's numbers are below parents'."""
        found = []
        for first, end in itertools.pairwise(self.first.tolist()):
            for children in self.children[first:end].tolist():
                found.append(1 + max((found[first + child] for child in children if child >= 0), default=-1))
        return torch.tensor(found)

    def graph(self, number):
        """The children of each vertex of a graph, its row of x (-1 for none), and its kind if vertices have kinds."""
        own = slice(*self.first[number : number + 2].tolist())
        children = self.children[own].tolist()
        if self.rows is None:
            rows = range(len(children))
        elif isinstance(self.rows, str):
            leaves = itertools.count()
            rows = [next(leaves) if max(row) < 0 else -1 for row in children]
        else:
            rows = self.rows[own].tolist()
        return children, rows, [] if self.kinds is None else self.kinds[own].tolist()


def structures(graphs, rows=None, kinds=None):
    """Of lists of vertices, each the list of its children."""
    first = [0, *itertools.accumulate(map(len, graphs))]
    children = [row for graph in graphs for row in graph]
    return Structures(torch.tensor(first), torch.tensor(children, dtype=torch.int32), rows, kinds)


def sentence_length(source):
    length = round(source.gammavariate(LENGTH_SHAPE, LENGTH_MEAN / LENGTH_SHAPE))
    return min(max(length, LENGTH_LEAST), LENGTH_MOST)


def random_chains(count=SENTENCES, seed=SEED, words=None):
    """Sentences: each word's child is the word before it. All have the same number of words, if that is given."""
    source = random.Random(seed)
    lengths = [words or sentence_length(source) for _ in range(count)]
    return structures([[[before] for before in range(-1, length - 1)] for length in lengths])


def both_ways(chains):
    """Two vertices for each word t, which pull row t. The child of 2 t is the word before's, 2 t - 2; the child of
    2 t + 1 is the word behind's, 2 t + 3. Kinds: 0 begins from the left and 2 from the right; 1 and 3 go on."""
    graphs = []
    for count in chains.counts.tolist():
        graph = [[vertex + step] for vertex in range(0, 2 * count, 2) for step in (-2, 3)]
        graph[0] = graph[-1] = [-1]
        graphs.append(graph)
    made = structures(graphs)
    rows = torch.cat([torch.arange(2 * count) // 2 for count in chains.counts.tolist()])
    is_from_right = torch.arange(len(made.children)) % 2
    return made._replace(rows=rows, kinds=2 * is_from_right + (made.children[:, 0] >= 0))


def spelled_sentences(count=TAGGED, seed=SEED):
    """Sentences both ways, as both_ways() has them, in which some words are spelled out: these pull no row, but have the
    ends of two chains of characters as their children, of one from the left and one from the right. Returns the graphs,
    and of each one the characters of its words, 0 for a word that is not spelled out.

    A graph has two vertices for each word, then two for each character of words that are spelled out. Rows of x are the
    other words', then those characters'. The slots of a word: the one before, and both chains' ends. Kinds, from the left,
    and 3 more from the right: 0 begins, 1 goes on, 2 is spelled out. Of characters: 6 begins, 7 goes on; 8, 9 from the
    right."""
    source = random.Random(seed)

    def sentence():
        seldom = lambda: source.randint(*CHARACTERS) if source.randrange(SELDOM) == 0 else 0
        words = [seldom() for _ in range(sentence_length(source))]
        if not any(words):
            words[source.randrange(len(words))] = source.randint(*CHARACTERS)
        return words

    of_all = [sentence() for _ in range(count)]
    made = [spelled(words) for words in of_all]
    graphs, rows, kinds = ([one[part] for one in made] for part in range(3))
    flat = lambda lists: torch.tensor([number for its in lists for number in its])
    return structures(graphs, flat(rows), flat(kinds)), of_all


def spelled(words):
    """The children, the rows and the kinds of a sentence's vertices."""
    of_words, none = 2 * len(words), [-1, -1, -1]
    children, rows, kinds = [none] * of_words, [-1] * of_words, [0] * of_words
    row = 0
    for word, characters in enumerate(words):
        first = len(children)
        for character in range(characters):
            place, is_last = first + 2 * character, character == characters - 1
            children += [[place - 2, -1, -1] if character else none, none if is_last else [place + 3, -1, -1]]
            kinds += [7 if character else 6, 8 if is_last else 9]
        ends = [first + 2 * characters - 2, first + 1] if characters else [-1, -1]
        for vertex, before, kind in ((2 * word, 2 * word - 2, 0), (2 * word + 1, 2 * word + 3, 3)):
            has_before = 0 <= before < of_words
            children[vertex] = [before if has_before else -1, *ends]
            kinds[vertex] = kind + (2 if characters else has_before)
            rows[vertex] = -1 if characters else row
        row += not characters
    rows += [row + character for character in range(sum(words)) for _ in range(2)]
    return children, rows, kinds


def random_pyramids(count=PYRAMIDS, seed=SEED):
    """Words, then level by level: vertex t of a level has the vertices t and t + 1 of the one below as its children,
    until a level has one vertex."""
    source = random.Random(seed)

    def pyramid(words):
        graph = [[-1, -1]] * words
        for width in range(words - 1, 0, -1):
            below = len(graph) - width - 1
            graph += [[below + place, below + place + 1] for place in range(width)]
        return graph

    return structures([pyramid(source.randint(*WORDS)) for _ in range(count)], "leaves")


def complete_trees(count=COMPLETE_TREES, leaves=LEAVES):
    """Complete binary trees, all the same: leaves first, then level by level. `leaves` is a power of two."""
    tree = [[-1, -1]] * leaves + [[2 * number, 2 * number + 1] for number in range(leaves - 1)]
    return structures([tree] * count, "leaves")


def random_circuits(count=CIRCUITS, seed=SEED):
    """Inputs, then gates, each with two inputs out of all vertices before it."""
    source = random.Random(seed)

    def circuit():
        inputs, gates = source.randint(*INPUTS), source.randint(*GATES)
        return [[-1, -1]] * inputs + [source.sample(range(inputs + number), 2) for number in range(gates)]

    return structures([circuit() for _ in range(count)])


def recursion(structures, ids, x, vertex):
    """The first state of all vertices of the graphs `ids`, one vertex at a time: vertex(row, children) returns a
    vertex's states. `children` are those of its children, and `row` is its row of x. Where vertices have kinds,
    vertex(row, children, kind) does."""
    found, base = [], 0
    for graph in ids:
        children, rows, kinds = structures.graph(graph)
        count = max(rows) + 1
        found += first_states(children, rows, kinds, x[base : base + count].unbind(), vertex)
        base += count
    return torch.stack(found)


def first_states(children, rows, kinds, x, vertex):
    """Of all vertices of a graph. Children may have greater numbers than their parents."""

    @functools.cache
    def states(number):
        row = x[rows[number]] if rows[number] >= 0 else None
        return vertex(row, [states(child) for child in children[number] if child >= 0], *kinds[number : number + 1])

    return [states(number)[0] for number in range(len(children))]


def main():
    for name, made in (("chains", random_chains()), ("pyramids", random_pyramids()), ("trees", complete_trees()),
                       ("circuits", random_circuits())):  # fmt: skip
        counts = made.counts.tolist()
        heights = torch.tensor([float(heights.max()) for heights in made.heights().split(counts)])
        print(f"{len(counts)} {name}: {sum(counts) / len(counts):.1f} vertices ({min(counts)} to {max(counts)}), "
              f"height {heights.mean():.1f} ({heights.min():.0f} to {heights.max():.0f})")  # fmt: skip


if __name__ == "__main__":
    main()
