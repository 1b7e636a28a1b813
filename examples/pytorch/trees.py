"""Random binary trees as large as a treebank's parses, and a task on them; `python trees.py` prints what they are.

The numbers of leaves are spread as the lengths of its sentences are, and the shapes lean to the right as parses do.
Nothing is read from a file: a seed decides all.
"""

import itertools
import random

import torch

from structures import SEED, SENTENCES, sentence_length, structures

# How often a span splits off its first word. With it and SEED, trees have on average 37.3 vertices and height 10.3.
FIRST_ALONE = 0.6
# Each vertex has a bit. A leaf's is its word's. A span's is computed of its two parts by the operation that its first
# word names, so neither the words without the shape tell it nor the shape without the order of the words.
OPERATIONS = (int.__and__, int.__or__, int.__xor__)
SYNONYMS = 4
WORDS = 2 * len(OPERATIONS) * SYNONYMS


def random_trees(count=SENTENCES, seed=SEED):
    """Binary trees in post-order: first all of the left child's subtree, then all of the right one's, then the vertex.
    So the root is the last, and leaves have the words' order."""
    source = random.Random(seed)

    def grow(tree, leaves):
        """Appends a span's vertices, and returns the number of the last one."""
        if leaves == 1:
            tree.append((-1, -1))
        else:
            left = 1 if source.random() < FIRST_ALONE else source.randint(1, leaves - 1)
            tree.append((grow(tree, left), grow(tree, leaves - left)))
        return len(tree) - 1

    trees = [[] for _ in range(count)]
    for tree in trees:
        grow(tree, sentence_length(source))
    return structures(trees, "leaves")


def random_words(trees, seed=SEED):
    """[leaves of all trees] int64, below WORDS."""
    leaves = int((trees.children[:, 0] < 0).sum())
    return torch.randint(WORDS, (leaves,), generator=torch.Generator().manual_seed(seed))


def bits(trees, words):
    """[vertices of all trees] int64: the bit of each vertex, what is to be learnt."""
    words, states = iter((words // SYNONYMS).tolist()), []
    for first, end in itertools.pairwise(trees.first.tolist()):
        for left, right in trees.children[first:end].tolist():
            if left < 0:
                states.append(divmod(next(words), len(OPERATIONS)))
            else:
                (a, operation), (b, _) = states[first + left], states[first + right]
                states.append((OPERATIONS[operation](a, b), operation))
    return torch.tensor([bit for bit, _ in states])


def linear_accuracy(trees, words, roots):
    """How many roots a logistic regression on counts of words gets right in the last fifth of the trees, which it has
    not seen, and how many whoever guesses the commoner bit."""
    leaf = trees.children[:, 0] < 0
    tree = torch.repeat_interleave(torch.arange(len(trees.counts)), trees.counts)[leaf]
    counts = torch.zeros(len(trees.counts), WORDS).index_put_((tree, words), torch.tensor(1.0), accumulate=True)
    seen = len(counts) * 4 // 5
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = torch.nn.Linear(WORDS, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100)

    def loss():
        optimizer.zero_grad()
        found = torch.nn.functional.binary_cross_entropy_with_logits(model(counts[:seen])[:, 0], roots[:seen].float())
        found.backward()
        return found

    optimizer.step(loss)
    common = int(roots[:seen].float().mean() > 0.5)
    unseen = roots[seen:]
    is_right = (model(counts[seen:])[:, 0] > 0) == unseen.bool()
    return is_right.float().mean().item(), (unseen == common).float().mean().item()


def main():
    trees = random_trees()
    counts, roots = trees.counts.double(), trees.first[1:] - 1
    heights = trees.heights()[roots].double()
    words = random_words(trees)
    found = bits(trees, words)
    linear, common = linear_accuracy(trees, words, found[roots])
    print(f"{len(counts)} trees: {counts.mean():.1f} vertices (most {int(counts.max())}), height {heights.mean():.1f} "
          f"(most {int(heights.max())}); a batch of 128: {128 * counts.mean():.0f} vertices")  # fmt: skip
    print(f"{words.numel()} words of {WORDS}; the bit is 1 at {found.double().mean():.1%} of the vertices and "
          f"{found[roots].double().mean():.1%} of the roots")
    print(f"roots of unseen trees: the commoner bit {common:.1%}, counts of words {linear:.1%}")
    assert abs(counts.mean() / 37.3 - 1) < 0.005 and abs(heights.mean() / 10.3 - 1) < 0.005
    assert abs(128 * counts.mean() - 4770) < 24
    assert linear < 0.65


if __name__ == "__main__":
    main()
