"""The variable-length LSTM, Tree-FC and DagGRU in plain PyTorch, as fast as we could write them: what vertex nets are
compared with. tree_baselines.py has the Tree-LSTM's.

E, eager, computes the vertices of one level of all graphs together. C is E with the function of a level compiled by
`torch.compile(dynamic=True)`. Indices are prepared, and what needs no child is one product before the first level.

- The LSTM's sentences are sorted by length, so a level is a slice of the words, and its children are the first rows of
  the level before. nn.LSTM is torch.nn.LSTM on the same packed rows, on a GPU cuDNN's.
- Tree-FC's levels are kept as the Tree-LSTM's are. "complete" knows beforehand that all trees are complete, and reads
  children as a view, without an index.
- A vertex of DagGRU hands on what its parents sum, mapper(h) behind gate(h): so both are computed for each vertex that
  has a parent, not for each edge. Each level's rows are appended to those of all below.
"""

import functools
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import PackedSequence

from timing import Method
from tree_baselines import by_level, compiled, inverse, prepare, starts

# The variable-length LSTM


@dataclass
class Sequences:
    """Sentences, the longest first. Rows are sorted by their place in the sentence."""

    widths: torch.Tensor  # [length of the longest] the rows of each place, on the CPU
    order: torch.Tensor  # [rows] the word of each row
    row: torch.Tensor  # [words]


def prepare_sequences(chains, ids, device):
    counts = chains.counts[ids]
    lengths, longest = counts.sort(descending=True, stable=True)
    places = torch.arange(int(lengths[0]))[:, None]
    is_there = places < lengths
    order = (starts(counts)[longest] + places)[is_there]
    return Sequences(is_there.sum(1), order.to(device), inverse(order).to(device))


def lstm_level(gates, h, c, weight):
    hidden = h.shape[1]
    both, g, o = torch.addmm(gates, h, weight.t()).split([2 * hidden, hidden, hidden], 1)
    i, f = both.sigmoid().chunk(2, 1)
    c = torch.addcmul(f * c, i, g.tanh())
    return o.sigmoid() * c.tanh(), c


def lstm(model, batch, x, level=lstm_level):
    of_x, of_h, bias, other_bias = model.lstm.all_weights[0]
    gates = torch.addmm(bias + other_bias, x.index_select(0, batch.order), of_x.t())
    first, *others = gates.split(batch.widths.tolist())
    i, _, g, o = first.chunk(4, 1)
    c = i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    done = [h]
    for gates in others:
        if len(gates) < len(h):
            h, c = h[: len(gates)], c[: len(gates)]
        h, c = level(gates, h, c, of_h)
        done.append(h)
    return torch.cat(done).index_select(0, batch.row)


def nn_lstm(model, batch, x):
    found, _ = model.lstm(PackedSequence(x.index_select(0, batch.order), batch.widths))
    return found.data.index_select(0, batch.row)


def lstm_rivals(chains, device):
    plain = functools.partial(prepare_sequences, chains, device=device)
    return [
        Method("E", plain, lstm),
        Method("C", plain, functools.partial(lstm, level=compiled(lstm_level))),
        # cuDNN's persistent kernels are some 5e-6 from double precision.
        Method("nn.LSTM", plain, nn_lstm, allowed=20.0),
    ]


def lstm_vertex(model, rows, children):
    """h and c of a vertex, for `recursion`."""
    states = children[0] if children else [torch.zeros(model.lstm.hidden_size, dtype=torch.float64)] * 2
    found = torch.lstm_cell(next(rows)[None], [state[None] for state in states], *model.lstm.all_weights[0])
    return [state[0] for state in found]


# Tree-FC


def tree_fc_level(h, gather, weight, bias):
    return (torch.addmm(bias, h.index_select(0, gather).view(-1, 2 * h.shape[1]), weight.t()).tanh(),)


def tree_fc(model, batch, x, level=tree_fc_level):
    return by_level(batch, x, lambda x: (x,), lambda h, gather: level(h, gather, model.W.weight, model.W.bias))


def tree_fc_complete(model, batch, x):
    """`batch` is the number of trees."""
    hidden = x.shape[1]
    done = [x.view(batch, -1, hidden)]
    while done[-1].shape[1] > 1:
        done.append(model.W(done[-1].reshape(batch, -1, 2 * hidden)).tanh())
    return torch.cat(done, 1).view(-1, hidden)


def tree_fc_rivals(trees, device):
    plain = functools.partial(prepare, trees, trees.heights(), device=device)
    return [
        Method("E", plain, tree_fc),
        Method("C", plain, functools.partial(tree_fc, level=compiled(tree_fc_level))),
        Method("complete", len, tree_fc_complete),
    ]


def tree_fc_vertex(model, rows, children):
    """h of a vertex, for `recursion`."""
    if not children:
        return (next(rows),)
    return (model.W(torch.cat([h for (h,) in children])).tanh(),)


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
    ids = torch.as_tensor(ids)
    counts = circuits.counts[ids]
    base = starts(counts)
    source = torch.arange(int(counts.sum())) + torch.repeat_interleave(circuits.first[ids] - base, counts)
    level = heights[source]
    inner = level > 0
    children = circuits.children[source].long() + torch.repeat_interleave(base, counts)[:, None]
    sends = torch.zeros(len(level), dtype=torch.bool)
    sends[children[inner]] = True
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
    plain = functools.partial(prepare_circuits, circuits, circuits.heights(), device=device)
    return [
        Method("E", plain, dag_gru),
        Method("C", plain, functools.partial(dag_gru, level=compiled(dag_gru_level))),
    ]


def dag_gru_vertex(model, rows, children):
    """h of a vertex, for `recursion`."""
    zeros = torch.zeros(model.out_features, dtype=torch.float64)
    s = sum((model.gate(h).sigmoid() * model.mapper(h) for (h,) in children), zeros)
    return (model.cell(next(rows)[None], s[None])[0],)
