"""The LSTM one way and both ways, recursive nets, time-delay nets and DagGRU in plain PyTorch, as fast as we could
write them: what vertex nets are compared with. tree_baselines.py has the Tree-LSTM's.

E, eager, computes the vertices of one level of all graphs together. C is E with the function of a level compiled by
`torch.compile(dynamic=True)`. Indices are prepared, and what needs no child is one product before the first level.

- The LSTM's sentences are sorted by length, so a level is a slice of the words, and its children are the first rows of
  the level before. On a GPU, where launches are what counts, both directions of a level are one batched product; on a
  CPU, one direction comes after the other. nn.LSTM is torch.nn.LSTM on the same packed rows, on a GPU cuDNN's. Where
  words are spelled out, the same comes first for their characters.
- Levels of recursive nets are kept as the Tree-LSTM's are. "complete" knows beforehand that all trees are complete, and
  reads children as a view, without an index.
- In a time-delay net, only the next level reads a level: the Tree-LSTM's "chunked" form then copies no state for later,
  and serves a GPU too. In "padded", a level is a block [places, sentences], the longest sentence first: children are
  neighbours in the block below, without an index, and places behind a sentence's end are computed too.
- A vertex of DagGRU hands on what its parents sum, mapper(h) behind gate(h): so both are computed for each vertex that
  has a parent, not for each edge. Each level's rows are appended to those of all below.
"""

import functools
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import PackedSequence

import tree_baselines
from timing import Method
from tree_baselines import by_level, chunked, compiled, inverse, joined, prepare, starts, vertices


def eager_and_compiled(plain, forward, level, **more):
    """E and C of a net whose batches `plain` prepares."""
    return [
        Method("E", plain, functools.partial(forward, **more)),
        Method("C", plain, functools.partial(forward, level=compiled(level), **more)),
    ]


# The variable-length LSTM


@dataclass
class Sequences:
    """Sentences, the longest first. Rows are sorted by their place in the sentence; both ways, those from the left come
    first, then those from the right, whose places count from the end."""

    widths: torch.Tensor  # [length of the longest] the rows of each place, on the CPU
    order: torch.Tensor  # [directions rows] the word of each row
    row: torch.Tensor  # [directions words] the rows of each word, one for each direction


def prepare_sequences(lengths, ids, device, directions=1):
    counts = lengths[ids]
    lengths, longest = counts.sort(descending=True, stable=True)
    places, first = torch.arange(int(lengths[0]))[:, None], starts(counts)[longest]
    is_there = places < lengths
    orders = [words[is_there] for words in (first + places, first + lengths - 1 - places)[:directions]]
    row = torch.stack([inverse(order) + number * len(order) for number, order in enumerate(orders)], 1).view(-1)
    return Sequences(is_there.sum(1), torch.cat(orders).to(device), row.to(device))


def product(bias, x, weight):
    """Of one direction, or [2, …] of both."""
    return (torch.addmm if x.dim() == 2 else torch.baddbmm)(bias, x, weight.mT)


def lstm_level(gates, h, c, weight):
    hidden = h.shape[-1]
    both, g, o = product(gates, h, weight).split([2 * hidden, hidden, hidden], -1)
    i, f = both.sigmoid().chunk(2, -1)
    c = torch.addcmul(f * c, i, g.tanh())
    return o.sigmoid() * c.tanh(), c


def lstm_levels(x, widths, level, of_x, of_h, bias):
    """h [rows, hidden] of one direction, or [2, rows, hidden] of both."""
    first, *others = product(bias, x, of_x).split(widths, -2)
    i, _, g, o = first.chunk(4, -1)
    c = i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    done = [h]
    for gates in others:
        width = gates.shape[-2]
        if width < h.shape[-2]:
            h, c = h[..., :width, :], c[..., :width, :]
        h, c = level(gates, h, c, of_h)
        done.append(h)
    return torch.cat(done, -2)


def by_levels(lstm, batch, x, level=lstm_level):
    """h of both directions of each word, one behind the other, or of its one direction."""
    words, widths = x.index_select(0, batch.order), batch.widths.tolist()
    directions = [(of_x, of_h, bias + other) for of_x, of_h, bias, other in lstm.all_weights]
    if x.is_cuda and len(directions) == 2:
        of_x, of_h, bias = map(torch.stack, zip(*directions, strict=True))
        h = lstm_levels(words.view(2, -1, x.shape[1]), widths, level, of_x, of_h, bias[:, None]).flatten(0, 1)
    else:
        parts = words.chunk(len(directions))
        h = joined([lstm_levels(part, widths, level, *one) for part, one in zip(parts, directions, strict=True)])
    return h.index_select(0, batch.row)


def packed(lstm, batch, x):
    """Likewise by torch.nn.LSTM. `batch` is of one direction."""
    found, _ = lstm(PackedSequence(x.index_select(0, batch.order), batch.widths))
    return found.data.index_select(0, batch.row).view(-1, lstm.hidden_size)


def lstm(model, batch, x, level=lstm_level):
    return by_levels(model.lstm, batch, x, level)


def nn_lstm(model, batch, x):
    return packed(model.lstm, batch, x)


def lstm_rivals(chains, device, directions=1):
    lengths = chains.counts // directions
    plain = functools.partial(prepare_sequences, lengths, device=device, directions=directions)
    return [
        *eager_and_compiled(plain, lstm, lstm_level),
        # cuDNN's persistent kernels are some 5e-6 from double precision.
        Method("nn.LSTM", functools.partial(prepare_sequences, lengths, device=device), nn_lstm, allowed=20.0),
    ]


def lstm_states(lstm, direction, x, before):
    """h and c of a word; `before` has those of the word before, or is empty."""
    states = before or [x.new_zeros(lstm.hidden_size)] * 2
    found = torch.lstm_cell(x[None], [state[None] for state in states], *lstm.all_weights[direction])
    return [state[0] for state in found]


def lstm_vertex(model, row, children, kind=0):
    """h and c of a vertex, for `recursion`."""
    return lstm_states(model.lstm, kind // 2, row, children[0] if children else ())


# The LSTM both ways over words, of which some are spelled out


@dataclass
class Spelled:
    """A batch of structures.spelled_sentences()."""

    characters: Sequences
    of_characters: torch.Tensor  # [characters] their rows of x
    ends: torch.Tensor  # [words spelled out, 2] the last state of each direction, among those of all characters
    words: Sequences
    of_words: torch.Tensor  # [words] their rows of x, with the words that are spelled out behind
    vertex: torch.Tensor  # [vertices] their words' states, or those of characters, which are behind them


def prepare_spelled(of_all, ids, device, directions=2):
    sentences = [of_all[number] for number in ids]
    of_characters, of_words, vertex, seldom, row, place = [], [], [], [], 0, 0
    behind = 2 * sum(map(len, sentences))
    for words in sentences:
        known, count = len(words) - sum(map(bool, words)), sum(words)
        vertex += [*range(place, place + 2 * len(words)), *range(behind, behind + 2 * count)]
        of_characters += range(row + known, row + known + count)
        for characters in words:
            of_words.append(-1 - len(seldom) if characters else row)
            row += not characters
            seldom += [characters] if characters else []
        row, place, behind = row + count, place + 2 * len(words), behind + 2 * count
    counts, of_words, vertex, of_characters = map(torch.tensor, (seldom, of_words, vertex, of_characters))
    ends = torch.stack([2 * (counts.cumsum(0) - 1), 2 * starts(counts) + 1], 1)
    sequences = lambda lengths: prepare_sequences(lengths, torch.arange(len(lengths)), device, directions)
    return Spelled(
        sequences(counts), of_characters.to(device), ends.to(device),
        sequences(torch.tensor([len(words) for words in sentences])),
        torch.where(of_words < 0, row - 1 - of_words, of_words).to(device), vertex.to(device),
    )  # fmt: skip


def spelled_lstm(model, batch, x, run):
    """run(lstm, sequences, x) returns h of both directions of each word, one behind the other."""
    spelt = run(model.characters, batch.characters, x.index_select(0, batch.of_characters))
    seldom = model.spelling(spelt.index_select(0, batch.ends.flatten()).view(-1, 2 * spelt.shape[1]))
    h = run(model.lstm, batch.words, torch.cat([x, seldom]).index_select(0, batch.of_words))
    return torch.cat([h, spelt]).index_select(0, batch.vertex)


def spelled_by_levels(model, batch, x, level=lstm_level):
    return spelled_lstm(model, batch, x, functools.partial(by_levels, level=level))


def spelled_rivals(of_all, _, device):
    plain = functools.partial(prepare_spelled, of_all, device=device)
    return [
        *eager_and_compiled(plain, spelled_by_levels, lstm_level),
        Method("nn.LSTM", functools.partial(plain, directions=1), functools.partial(spelled_lstm, run=packed), allowed=20.0),
    ]


def spelled_vertex(model, row, children, kind):
    """h and c of a vertex, for `recursion`."""
    if kind >= 6:
        return lstm_states(model.characters, (kind - 6) // 2, row, children[0] if children else ())
    if kind % 3 == 2:
        *children, left, right = children
        row = model.spelling(torch.cat([left[0], right[0]]))
    return lstm_states(model.lstm, kind // 3, row, children[0] if children else ())


# Recursive nets


def rvnn_cell(both_h, weight, bias):
    return (torch.addmm(bias, both_h, weight.t()).tanh(),)


def rvnn_level(h, gather, weight, bias):
    return rvnn_cell(h.index_select(0, gather).view(-1, 2 * h.shape[1]), weight, bias)


def rvnn(model, batch, x, level=rvnn_level, form=by_level):
    return form(batch, x, lambda x: (x,), lambda h, gather: level(h, gather, model.W.weight, model.W.bias))


def rvnn_complete(model, batch, x):
    """`batch` is the number of trees."""
    hidden = x.shape[1]
    done = [x.view(batch, -1, hidden)]
    while done[-1].shape[1] > 1:
        done.append(model.W(done[-1].reshape(batch, -1, 2 * hidden)).tanh())
    return torch.cat(done, 1).view(-1, hidden)


def by_heights(prepare, structures, device):
    """How a net's batches are prepared, by the heights of vertices."""
    return functools.partial(prepare, structures, structures.heights(), device=device)


def rvnn_rivals(trees, device):
    return eager_and_compiled(by_heights(prepare, trees, device), rvnn, rvnn_level)


def tree_fc_rivals(trees, device):
    return [*rvnn_rivals(trees, device), Method("complete", len, rvnn_complete)]


def rvnn_vertex(model, row, children):
    """h of a vertex, for `recursion`."""
    if not children:
        return (row,)
    return (model.W(torch.cat([h for (h,) in children])).tanh(),)


# Time-delay nets


@dataclass
class Blocks:
    """Levels as blocks [places, sentences] of rows, the longest sentence first."""

    widths: list  # the sentences of each level
    words: torch.Tensor  # [rows of level 0] the word of each row; padding reads word 0
    row: torch.Tensor  # [vertices]


def prepare_blocks(lengths, ids, device):
    counts = lengths[ids]
    most = int(counts.max())
    longest = counts.argsort(descending=True, stable=True)
    column, levels = inverse(longest), torch.arange(most)
    widths = (counts > levels[:, None]).sum(1)
    first = starts(widths * (most - levels))
    is_there = (levels[:, None] + levels) < counts[:, None, None]  # [sentences, levels, places]
    row = (first[:, None] + widths[:, None] * levels + column[:, None, None])[is_there]
    words = torch.where(levels[:, None] < counts[longest], starts(counts)[longest] + levels[:, None], 0)
    return Blocks(widths.tolist(), words.view(-1).to(device), row.to(device))


def padded(batch, x, leaf, cell):
    """leaf(x) returns the states of words, and cell(*states) those of vertices, from both children's side by side."""
    states = leaf(x.index_select(0, batch.words))
    done, places = [states[0]], len(batch.widths)
    for below, width in zip(batch.widths, batch.widths[1:]):
        blocks = [state.view(places, below, -1)[:, :width] for state in states]
        states = cell(*(block.unfold(0, 2, 1).mT.reshape(-1, 2 * block.shape[2]) for block in blocks))
        done.append(states[0])
        places -= 1
    return torch.cat(done).index_select(0, batch.row)


def td_rnn_padded(model, batch, x):
    return padded(batch, x, lambda x: (x,), lambda h: rvnn_cell(h, model.W.weight, model.W.bias))


def td_lstm_padded(model, batch, x):
    return padded(batch, x, lambda x: tree_baselines.leaf(x, model.W.weight, model.W.bias),
                  lambda h, c: tree_baselines.cell(h, c, model.U.weight, model.U.bias))  # fmt: skip


def time_delay_rivals(pyramids, device, forward, level, forward_padded):
    lengths = (2 * pyramids.counts).double().sqrt().long()  # n words have n (n + 1) / 2 vertices
    return [
        *eager_and_compiled(by_heights(prepare, pyramids, device), forward, level, form=chunked),
        Method("padded", functools.partial(prepare_blocks, lengths, device=device), forward_padded),
    ]


def td_rnn_rivals(pyramids, device):
    return time_delay_rivals(pyramids, device, rvnn, rvnn_level, td_rnn_padded)


def td_lstm_rivals(pyramids, device):
    return time_delay_rivals(pyramids, device, tree_baselines.eager, tree_baselines.level_function, td_lstm_padded)


# DagGRU


@dataclass
class Circuits:
    """Rows are sorted by level; those of a level that have parents are its first."""

    widths: list  # the rows of each level
    senders: list  # how many of them have parents
    gathers: list  # of each level above 0: [2 width], its children's places among all rows that have parents
    order: torch.Tensor  # [rows] the vertex of each row
    row: torch.Tensor  # [vertices]


def prepare_circuits(circuits, heights, ids, device):
    level, inner, their_children = vertices(circuits, heights, ids)
    children = torch.zeros(len(level), 2, dtype=torch.int64)
    children[inner] = their_children
    sends = torch.zeros(len(level), dtype=torch.bool)
    sends[their_children] = True
    order = torch.argsort(2 * level + ~sends, stable=True)
    place = sends[order].cumsum(0)[inverse(order)] - 1
    widths, senders = torch.bincount(level).tolist(), torch.bincount(level[sends], minlength=int(level.max()) + 1)
    gathers = [place[children[rows]].view(-1).to(device) for rows in order.split(widths)[1:]]
    return Circuits(widths, senders.tolist(), gathers, order.to(device), inverse(order).to(device))


def gated(of_x, of_s, s):
    """The GRU's h, from the products of x and s."""
    widths = [2 * s.shape[1], s.shape[1]]
    (both_x, n_x), (both_s, n_s) = of_x.split(widths, 1), of_s.split(widths, 1)
    r, z = (both_x + both_s).sigmoid().chunk(2, 1)
    return torch.lerp(torch.addcmul(n_x, r, n_s).tanh(), s, z)


def message(h, weight, bias):
    gate, mapped = torch.addmm(bias, h, weight.t()).chunk(2, 1)
    return gate.sigmoid() * mapped


def dag_gru_level(messages, gather, of_x, senders, weight, bias, send_weight, send_bias):
    """h of a level, and what it hands on."""
    s = messages.index_select(0, gather).view(-1, 2, messages.shape[1]).sum(1)
    h = gated(of_x, torch.addmm(bias, s, weight.t()), s)
    return h, message(h[:senders], send_weight, send_bias)


def dag_gru(model, batch, x, level=dag_gru_level):
    cell = model.cell
    send_weight = torch.cat([model.gate.weight, model.mapper.weight])
    send_bias = torch.cat([model.gate.bias, torch.zeros_like(model.gate.bias)])
    of_x = torch.addmm(cell.bias_ih, x.index_select(0, batch.order), cell.weight_ih.t()).split(batch.widths)
    zeros = x.new_zeros(1, cell.hidden_size)
    h = gated(of_x[0], cell.bias_hh[None], zeros)
    messages = message(h[: batch.senders[0]], send_weight, send_bias)
    done = [h]
    for number, gather in enumerate(batch.gathers, 1):
        h, sent = level(messages, gather, of_x[number], batch.senders[number], cell.weight_hh, cell.bias_hh,
                        send_weight, send_bias)  # fmt: skip
        done.append(h)
        messages = torch.cat([messages, sent])
    return torch.cat(done).index_select(0, batch.row)


def dag_gru_rivals(circuits, device):
    return eager_and_compiled(by_heights(prepare_circuits, circuits, device), dag_gru, dag_gru_level)


def dag_gru_vertex(model, row, children):
    """h of a vertex, for `recursion`."""
    zeros = row.new_zeros(model.out_features)
    s = sum((model.gate(h).sigmoid() * model.mapper(h) for (h,) in children), zeros)
    return (model.cell(row[None], s[None])[0],)
