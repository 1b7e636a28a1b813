"""The binary Tree-LSTM in plain PyTorch, as fast as we could write it: what vertex nets are compared with.

    python tree_baselines.py --check                         against a recursion in float64, and float's error
    python dynamic_nets.py --methods chunked,growing,B       forward and backward, in turns

All compute the N-ary Tree-LSTM (Tai et al., ACL 2015, equations 9 to 14) for two children, with words at the leaves
alone, and return h of all vertices in the caller's order. Vertices of one level of all trees are computed together.

E, eager, has two forms. On a CPU ("chunked") each level is one tensor, whose rows are sorted by their parents' level.
It splits into chunks without a copy, and the chunks that wait for a level are concatenated and gathered: together, the
levels copy each state twice. On a GPU, where launches are what counts, each level is appended to a tensor of all below
("growing"). Median ms of forward and backward in turns, H = 256, float; the CPU with 2 threads on 2 busy cores:

    batch                                  CPU:  1     8    32   128   256     H200:  1     8    32   128   256
    chunked                                    7.6  15.6  32.8   102   190         8.4  15.6  20.9  22.1  22.5
    growing                                    8.0  16.2  36.1   125   219         7.6  14.2  17.8  20.9  20.1
    one tensor, written in place               8.3  15.7  34.1   115   220         8.6  15.7  20.8  20.8  23.2
    one tensor, index_copy makes the next     10.3  16.7  43.1   149   290           –     –     –     –     –
    what still waits, and nothing else         8.9  15.1  33.2   105   193           –     –     –     –     –
    h and c in one tensor, chunked               –     –     –     –     –         8.7  17.6  22.0  23.3  24.2
    B                                          4.6  11.5  30.4   101   173         5.8  11.3  13.5  13.6  14.3

C, compiled: E, with the function of a level compiled by `torch.compile(dynamic=True)`.

B, by hand: one tensor of each kind of value, written in place, and a backward pass by hand, which takes the gradient
of U in one product a batch. It is faster than E, but whoever changes the cell has to derive its gradient anew.

G, graphs: B's passes as CUDA graphs, for batches that are padded to the widths of a bucket. Padded rows read row 0, no
row reads them, and their gradients are zero. GC is G with the element-wise part of a level compiled: the fastest that
we know of in PyTorch.
"""

import argparse
import functools
import itertools
import sys
from dataclasses import dataclass, replace

import torch
from torch import nn

import finds_harness  # noqa: F401
from harness import calls
from structures import recursion
from timing import Method, sampled
from trees import random_trees

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


class TreeLSTM(nn.Module):
    """The parameters. W: [3 H, words' width], for the gates i, o and u of leaves. U: [5 H, 2 H], for the gates i, o, u,
    f of the left child and f of the right one, from h of both."""

    def __init__(self, width, hidden):
        super().__init__()
        self.hidden = hidden
        self.W, self.U = nn.Linear(width, 3 * hidden), nn.Linear(2 * hidden, 5 * hidden)


@dataclass
class Batch:
    """Trees one behind the other, each in its own numbering: the caller's order of vertices. Leaves' words have the
    same order. `widths` counts the rows of each level, leaves first; a padded batch has more rows than vertices."""

    widths: tuple
    leaves: int
    vertices: int
    # The chunked form's rows: sorted by level, then by the parents' level; roots are the last of a level.
    leaf_order: torch.Tensor  # [leaves] the word of each row of level 0
    chunks: list  # of each level: {the parents' level: rows}, in order
    gathers: list  # of each level above 0: [2 width], its children's places among those that wait for it
    chunked_row: torch.Tensor  # [vertices]
    # All others' rows: sorted by level.
    children: torch.Tensor  # [2 rows above level 0] rows; padding reads row 0
    parent: torch.Tensor  # [rows] the child's place in `children`; where there is none, one behind the last
    row: torch.Tensor  # [rows] of each vertex; padded with row 0
    vertex: torch.Tensor  # [rows] of each row; padding reads one behind the last row

    #: What a graph reads.
    STATIC = ("children", "parent", "row", "vertex")

    def __post_init__(self):
        ends = list(itertools.accumulate(self.widths))
        both = [2 * (end - ends[0]) for end in ends]
        # Of each level above 0: its slices of rows, of rows above level 0 and of `children`, and what that holds.
        self.levels = [(slice(a, b), slice(a - ends[0], b - ends[0]), slice(c, d), self.children[c:d])
                       for (a, b), (c, d) in zip(itertools.pairwise(ends), itertools.pairwise(both))]  # fmt: skip


def prepare(trees, heights, ids, device="cpu", widths=None):
    """The batch of the trees `ids`. `heights` is trees.heights(); `widths` are those that it is padded to."""
    level, inner, children = vertices(trees, heights, ids)
    own_widths = torch.bincount(level)
    widths = torch.tensor(widths) if widths else own_widths
    leaf_order, chunks, gathers, chunked_row = chunked_rows(level, inner, children, own_widths)
    others = [tensor.to(device) for tensor in (chunked_row, *level_rows(level, inner, children, widths))]
    gathers = [gather.to(device) for gather in gathers]
    leaves = int(own_widths[0])
    return Batch(tuple(widths.tolist()), leaves, len(level), leaf_order.to(device), chunks, gathers, *others)


def vertices(structures, heights, ids):
    """The vertices of the graphs `ids`, one graph behind the other: the level of each; the inner ones, and their
    children."""
    ids = torch.as_tensor(ids)
    counts = structures.counts[ids]
    base = starts(counts)
    source = torch.arange(int(counts.sum())) + torch.repeat_interleave(structures.first[ids] - base, counts)
    level = heights[source]
    inner = torch.nonzero(level).squeeze(1)
    return level, inner, structures.children[source][inner].long() + torch.repeat_interleave(base, counts)[inner, None]


def starts(counts):
    """The sum of the numbers before each."""
    return counts.cumsum(0) - counts


def inverse(order):
    return torch.empty_like(order).index_copy_(0, order, torch.arange(len(order)))


def chunked_rows(level, inner, children, widths):
    """What the chunked form reads, of the levels of vertices and of the children of the inner ones."""
    count, levels = len(level), len(widths)
    parent_level = torch.full((count,), levels)
    parent_level[children] = level[inner, None]
    key = level * (levels + 1) + parent_level
    order = torch.argsort(key, stable=True)
    by_parent = order[torch.argsort(parent_level[order], stable=True)]
    place = inverse(by_parent) - starts(torch.bincount(parent_level))[parent_level]
    children_of = torch.empty(count, 2, dtype=torch.int64)
    children_of[inner] = children
    rows = order.split(widths.tolist())
    gathers = [place[children_of[own]].view(-1) for own in rows[1:]]
    table = torch.bincount(key, minlength=levels * (levels + 1)).view(levels, levels + 1).tolist()
    chunks = [{parent: size for parent, size in enumerate(line) if size} for line in table]
    return (torch.cumsum(level == 0, 0) - 1)[rows[0]], chunks, gathers, inverse(order)


def level_rows(level, inner, children, widths):
    """Batch's `children`, `parent`, `row` and `vertex`."""
    count, rows, leaves = len(level), int(widths.sum()), int(widths[0])
    row = torch.zeros(rows, dtype=torch.int64)
    place = inverse(torch.argsort(level, stable=True)) - starts(torch.bincount(level))[level]
    row[:count] = starts(widths)[level] + place
    vertex = torch.full((rows,), rows)
    vertex[row[:count]] = torch.arange(count)
    children_rows = torch.zeros(rows - leaves, 2, dtype=torch.int64)
    children_rows[row[inner] - leaves] = row[children]
    parent = torch.full((rows,), 2 * (rows - leaves))
    parent[row[children]] = 2 * (row[inner, None] - leaves) + torch.arange(2)
    return children_rows.view(-1), parent, row, vertex


def prepare_padded(trees, heights, id_lists, device="cpu", step=2):
    """The batches of `id_lists`, padded to buckets: batches whose numbers of levels are alike, rounded up to a multiple
    of `step`, get the largest width of each level among them."""
    widths = [prepare(trees, heights, ids).widths for ids in id_lists]
    bucket = lambda widths: -(-len(widths) // step) * step  # noqa: E731
    largest = {}
    for one in widths:
        both = itertools.zip_longest(largest.get(bucket(one), [1] * bucket(one)), one, fillvalue=1)
        largest[bucket(one)] = [max(pair) for pair in both]
    return [prepare(trees, heights, ids, device, largest[bucket(one)]) for ids, one in zip(id_lists, widths)]


def compiled(function):
    """torch.compile of the function, at its first call: to import the compiler takes seconds."""
    made = functools.cache(lambda: torch.compile(function, dynamic=True))
    return lambda *arguments: made()(*arguments)


def joined(parts):
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def chunked(batch, x, leaf, level):
    """leaf(x) returns the states of leaves, and level(*states, gather) those of a level. `gather` are the places of its
    children in the states, left and right in turns. A vertex may have several parents, all in one level."""
    states = leaf(x.index_select(0, batch.leaf_order))
    done = [states[0]]
    waiting = [[] for _ in range(len(batch.chunks) + 1)]
    for number, (chunks, gather) in enumerate(zip(batch.chunks, batch.gathers), 1):
        rows = list(chunks.values())
        for parent, *parts in zip(chunks, *(state.split(rows) for state in states)):
            waiting[parent].append(parts)
        states = level(*map(joined, zip(*waiting[number])), gather)
        done.append(states[0])
    return torch.cat(done).index_select(0, batch.chunked_row)


def growing(batch, x, leaf, level):
    states = leaf(x)
    for *_, children in batch.levels:
        states = list(map(torch.cat, zip(states, level(*states, children))))
    return states[0].index_select(0, batch.row)


def by_level(batch, x, leaf, level):
    return (growing if x.is_cuda else chunked)(batch, x, leaf, level)


def leaf(x, weight, bias):
    i, o, u = torch.addmm(bias, x, weight.t()).chunk(3, 1)
    c = i.sigmoid() * u.tanh()
    return o.sigmoid() * c.tanh(), c


def level_function(h, c, gather, weight, bias):
    return cell(*(state.index_select(0, gather).view(-1, 2 * h.shape[1]) for state in (h, c)), weight, bias)


def cell(both_h, both_c, weight, bias):
    """h and c of vertices, from those of their children side by side."""
    hidden = both_h.shape[1] // 2
    i, o, u, f = torch.addmm(bias, both_h, weight.t()).split([hidden, hidden, hidden, 2 * hidden], 1)
    left, right = (f.sigmoid() * both_c).chunk(2, 1)
    c = i.sigmoid() * u.tanh() + left + right
    return o.sigmoid() * c.tanh(), c


def eager(model, batch, x, level=level_function, form=by_level):
    return form(batch, x, lambda x: leaf(x, model.W.weight, model.W.bias),
                lambda h, c, gather: level(h, c, gather, model.U.weight, model.U.bias))  # fmt: skip


def activate(gates, children_c, c, tanh_c, h):
    """From the sums of a level's gates, which it overwrites, to c, tanh(c) and h."""
    hidden = h.shape[1]
    io, u, f = gates.split([2 * hidden, hidden, gates.shape[1] - 3 * hidden], 1)
    io.sigmoid_()
    u.tanh_()
    torch.mul(io[:, :hidden], u, out=c)
    if children_c is not None:
        f.sigmoid_()
        c.addcmul_(f[:, :hidden], children_c[:, :hidden]).addcmul_(f[:, hidden:], children_c[:, hidden:])
    torch.tanh(c, out=tanh_c)
    torch.mul(io[:, hidden:], tanh_c, out=h)


def differentiate(dh, dc, gates, children_c, tanh_c, d_gates, children_dc):
    """From the gradients of a level's h and c to those of its gates' sums and of its children's c. Overwrites dc."""
    hidden = dh.shape[1]
    widths = [2 * hidden, hidden, gates.shape[1] - 3 * hidden]
    (io, u, f), (d_io, d_u, d_f) = gates.split(widths, 1), d_gates.split(widths, 1)
    dc += torch.ops.aten.tanh_backward(dh * io[:, hidden:], tanh_c)
    torch.mul(dc, u, out=d_io[:, :hidden])
    torch.mul(dh, tanh_c, out=d_io[:, hidden:])
    sigmoid_backward(d_io, io, grad_input=d_io)
    torch.mul(dc, io[:, :hidden], out=d_u)
    tanh_backward(d_u, u, grad_input=d_u)
    if children_c is not None:
        both = lambda tensor: tensor.unflatten(1, (2, hidden))  # noqa: E731
        torch.mul(dc[:, None], both(f), out=both(children_dc))
        torch.mul(dc[:, None], both(children_c), out=both(d_f))
        sigmoid_backward(d_f, f, grad_input=d_f)


class ByHand:
    """B's passes. The two functions are for the element-wise part of a level."""

    def __init__(self, activate=activate, differentiate=differentiate):
        self.activate, self.differentiate = activate, differentiate

    def forward(self, batch, x, W, W_bias, U, U_bias):
        """h [rows], in the caller's order, and what the backward pass needs."""
        hidden, leaves, rows = U.shape[1] // 2, batch.widths[0], sum(batch.widths)
        h, c, tanh_c = (x.new_empty(rows, hidden) for _ in range(3))
        children_h, children_c = (x.new_empty(rows - leaves, 2 * hidden) for _ in range(2))
        gates = x.new_empty(rows - leaves, 5 * hidden)
        word_gates = torch.addmm(W_bias, x, W.t())
        activate(word_gates, None, c[:leaves], tanh_c[:leaves], h[:leaves])
        for own, inner, _, children in batch.levels:
            torch.index_select(h, 0, children, out=children_h[inner].view(-1, hidden))
            torch.index_select(c, 0, children, out=children_c[inner].view(-1, hidden))
            torch.addmm(U_bias, children_h[inner], U.t(), out=gates[inner])
            self.activate(gates[inner], children_c[inner], c[own], tanh_c[own], h[own])
        return h.index_select(0, batch.row), (x, W, U, word_gates, gates, children_h, children_c, tanh_c)

    def backward(self, batch, kept, dh):
        """The gradients of x, W, its bias, U and its bias. Padding reads dh's last row, which is zero then."""
        x, W, U, word_gates, gates, children_h, children_c, tanh_c = kept
        hidden, leaves = tanh_c.shape[1], batch.widths[0]
        dh = dh.index_select(0, batch.vertex)
        d_word_gates, d_gates = torch.empty_like(word_gates), torch.empty_like(gates)
        # Behind the last child is a row of zeros for those that have no parent.
        children_dh, children_dc = (dh.new_empty(len(batch.children) + 1, hidden) for _ in range(2))
        children_dh[-1] = children_dc[-1] = 0.0
        for own, inner, both, _ in reversed(batch.levels):
            parent = batch.parent[own]
            own_dh = dh[own].add_(children_dh.index_select(0, parent))
            own_dc = children_dc.index_select(0, parent)
            self.differentiate(own_dh, own_dc, gates[inner], children_c[inner], tanh_c[own], d_gates[inner],
                               children_dc[both].view(-1, 2 * hidden))  # fmt: skip
            torch.mm(d_gates[inner], U, out=children_dh[both].view(-1, 2 * hidden))
        parent = batch.parent[:leaves]
        own_dh = dh[:leaves].add_(children_dh.index_select(0, parent))
        own_dc = children_dc.index_select(0, parent)
        differentiate(own_dh, own_dc, word_gates, None, tanh_c[:leaves], d_word_gates, None)
        return (d_word_gates @ W, d_word_gates.t() @ x, d_word_gates.sum(0), d_gates.t() @ children_h, d_gates.sum(0))

    def __call__(self, model, batch, x):
        return Differentiable.apply(x, *model.parameters(), Eagerly(self, batch))


class Eagerly:
    """A run of B's passes as they are."""

    def __init__(self, passes, batch):
        self.passes, self.batch = passes, batch

    def forward(self, x, *parameters):
        h, self.kept = self.passes.forward(self.batch, x, *parameters)
        return h

    def backward(self, dh):
        return self.passes.backward(self.batch, self.kept, dh)


class Differentiable(torch.autograd.Function):
    """A run of B's passes or G's as an operation of autograd."""

    @staticmethod
    def forward(ctx, x, *parameters_and_run):
        *parameters, ctx.run = parameters_and_run
        return ctx.run.forward(x, *parameters)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dh):
        return *ctx.run.backward(dh), None


class Recorded:
    """A function whose `result` each replay computes anew: captured as a CUDA graph, or just called."""

    def __init__(self, function, is_captured):
        self.function, self.graph = function, None
        if is_captured:
            self.graph, self.result = calls.captured(function)

    def replay(self):
        if self.graph:
            self.graph.replay()
        else:
            self.result = self.function()


class Bucket:
    """G's passes for all batches of the same widths, with inputs that stay where they are. What it returns holds until
    the bucket's next run."""

    def __init__(self, passes, batch, x, parameters, is_captured):
        self.batch = replace(batch, **{name: getattr(batch, name).clone() for name in batch.STATIC})
        self.x = x.new_zeros(batch.widths[0], x.shape[1])
        # The gradient of h, and the row of zeros that padding reads.
        self.dh = x.new_zeros(sum(batch.widths) + 1, parameters[2].shape[1] // 2)
        with torch.no_grad():
            self.forwards = Recorded(lambda: passes.forward(self.batch, self.x, *parameters), is_captured)
            self.forwards.replay()
            backward = lambda: passes.backward(self.batch, self.forwards.result[1], self.dh)  # noqa: E731
            self.backwards = Recorded(backward, is_captured)

    def load(self, batch, x):
        for name in batch.STATIC:
            getattr(self.batch, name).copy_(getattr(batch, name))
        self.x[: batch.leaves].copy_(x)
        self.leaves, self.vertices = batch.leaves, batch.vertices

    def forward(self, *_):
        self.forwards.replay()
        return self.forwards.result[0][: self.vertices]

    def backward(self, dh):
        self.dh[: self.vertices].copy_(dh)
        self.backwards.replay()
        dx, *others = self.backwards.result
        return dx[: self.leaves], *others


class Graphs:
    """G: takes batches of prepare_padded(). Captures a bucket when its first batch comes."""

    def __init__(self, passes=None, is_captured=True):
        self.passes, self.is_captured, self.buckets = passes or ByHand(), is_captured, {}

    def bucket(self, model, batch, x):
        """The bucket, with the batch and x loaded: `forwards` and `backwards` can be replayed alone."""
        found = self.buckets.get(batch.widths)
        if not found:
            found = Bucket(self.passes, batch, x.detach(), list(model.parameters()), self.is_captured)
            self.buckets[batch.widths] = found
        found.load(batch, x.detach())
        return found

    def __call__(self, model, batch, x):
        return Differentiable.apply(x, *model.parameters(), self.bucket(model, batch, x))


def vertex(model, row, children):
    """h and c of a vertex, for `recursion`."""
    if not children:
        (i, o, u), kept = model.W(row).chunk(3), 0.0
    else:
        (left, c_left), (right, c_right) = children
        i, o, u, f, g = model.U(torch.cat([left, right])).chunk(5)
        kept = f.sigmoid() * c_left + g.sigmoid() * c_right
    c = i.sigmoid() * u.tanh() + kept
    return o.sigmoid() * c.tanh(), c


class Padded(Method):
    """G. A bucket's first batch is its capture, so each batch runs once untimed."""

    def batches(self, id_lists):
        return self.prepare(id_lists)

    def warm(self, *batch):
        self.run(*batch)


def rivals(trees, device):
    heights, is_captured = trees.heights(), device != "cpu"
    plain = functools.partial(prepare, trees, heights, device=device)
    padded = functools.partial(prepare_padded, trees, heights, device=device)
    fused = ByHand(*map(compiled, (activate, differentiate)))
    return [
        Method("E", plain, eager),
        Method("C", plain, functools.partial(eager, level=compiled(level_function))),
        Method("B", plain, ByHand()),
        Padded("G", padded, Graphs(is_captured=is_captured)),
        Padded("GC", padded, Graphs(fused, is_captured)),
        Method("chunked", plain, functools.partial(eager, form=chunked)),
        Method("growing", plain, functools.partial(eager, form=growing)),
    ]


def check(device):
    """Several batches of each size one after the other, so that each of a bucket finds what the last has left."""
    trees, wrong = random_trees(), 0
    for dtype, allowed in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        torch.manual_seed(1)
        model = TreeLSTM(24, 40).to(device, dtype)
        exact = TreeLSTM(24, 40).double()
        exact.load_state_dict(model.state_dict())
        plain = Method("exact", None, lambda model, ids, x: recursion(trees, ids, x, functools.partial(vertex, model)))
        for method in rivals(trees, device):
            for count in (1, 8, 32):
                errors, id_lists = [], sampled(count, 5, trees.counts)
                for ids, batch in zip(id_lists, method.batches(id_lists)):
                    x, dh = torch.randn(batch.leaves, 24, dtype=dtype), torch.randn(batch.vertices, 40, dtype=dtype)
                    expected = plain.run(exact, ids, x.double().requires_grad_(), dh.double())
                    found = method.run(model, batch, x.to(device).requires_grad_(), dh.to(device))
                    errors.append(calls.worst(found, expected))
                worst = torch.tensor(errors).max()  # A NaN if one is.
                wrong += not worst <= allowed
                verdict = "" if worst <= allowed else "WRONG"
                print(f"{method.name:7} {dtype} batch {count:2}: {worst:.1e} {verdict}", flush=True)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    return check(parser.parse_args().device)


if __name__ == "__main__":
    sys.exit(main())
