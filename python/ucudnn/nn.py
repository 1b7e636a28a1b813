"""Ready vertex nets. All are modules of PyTorch, called with a batch and the rows of its inputs."""

from __future__ import annotations

import torch

from .graphs import Batch
from .net import VertexNet

__all__ = ["ChildSumTreeLSTM", "DagGRU", "NaryTreeLSTM", "TreeGRU"]


class NaryTreeLSTM(torch.nn.Module):
    """The N-ary Tree-LSTM (Tai et al., ACL 2015, equations 9 to 14), with words at the leaves, the vertices without slots.

    Parameters: leaves have W_iou, a Linear [3 out_features, in_features]; the others U_iou, a Linear [3 out_features,
    arity out_features], and U_f, a Linear [arity out_features, arity out_features]. The order of gates is i, o, u.

    in_features: the width of x.

    out_features: the width of h and c.

    arity: the number of slots of a vertex that is no leaf.

    Called with `x` [rows of the batch, in_features], which Graphs(rows="leaves") numbers, it returns h and c, each
    [vertices of the batch, out_features].
    """

    def __init__(self, in_features: int, out_features: int, arity: int = 2):
        super().__init__()
        self.in_features, self.out_features, self.arity = in_features, out_features, arity
        self.W_iou = torch.nn.Linear(in_features, 3 * out_features)
        self.U_iou = torch.nn.Linear(arity * out_features, 3 * out_features)
        self.U_f = torch.nn.Linear(arity * out_features, arity * out_features)

        def finish(v, i, o, u, kept=0):
            c = i.sigmoid() * u.tanh() + kept
            h = o.sigmoid() * c.tanh()
            v.scatter(h=h, c=c)
            v.push(h=h, c=c)

        def leaf(v):
            finish(v, *v.linear("W_iou", v.pull("x", in_features)).chunk(3))

        def node(v):
            children = [v.gather(slot) for slot in range(arity)]
            h = v.concat([child.h for child in children])
            gates = v.linear("U_f", h).sigmoid().chunk(arity)
            kept = sum(gate * child.c for gate, child in zip(gates, children, strict=True))
            finish(v, *v.linear("U_iou", h).chunk(3), kept)

        self.net = VertexNet({"h": out_features, "c": out_features}, {0: leaf, arity: node}, self)

    def forward(self, batch: Batch, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(self.net(batch, x=x))


class ChildSumTreeLSTM(torch.nn.Module):
    """The child-sum Tree-LSTM (Tai et al., ACL 2015, equations 2 to 8): any number of children, in any order, and words
    at all vertices.

    Its parameters have the names and shapes of the package pytorch-tree-lstm, whose state dicts load. The order of gates
    is i, o, u.

    in_features: the width of x.

    out_features: the width of h and c.

    Called with `x` [rows of the batch, in_features], it returns h and c, each [vertices of the batch, out_features].
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.W_iou = torch.nn.Linear(in_features, 3 * out_features)
        self.U_iou = torch.nn.Linear(out_features, 3 * out_features, bias=False)
        self.W_f = torch.nn.Linear(in_features, out_features)
        self.U_f = torch.nn.Linear(out_features, out_features, bias=False)

        def vertex(v):
            x, children = v.pull("x", in_features), v.children()
            i, o, u = (v.linear("W_iou", x) + v.linear("U_iou", children.h.sum())).chunk(3)
            f = (v.linear("W_f", x) + v.linear("U_f", children.h)).sigmoid()
            c = i.sigmoid() * u.tanh() + (f * children.c).sum()
            h = o.sigmoid() * c.tanh()
            v.scatter(h=h, c=c)
            v.push(h=h, c=c)

        def leaf(v):
            i, o, u = v.linear("W_iou", v.pull("x", in_features)).chunk(3)
            c = i.sigmoid() * u.tanh()
            h = o.sigmoid() * c.tanh()
            v.scatter(h=h, c=c)
            v.push(h=h, c=c)

        self.net = VertexNet({"h": out_features, "c": out_features}, {0: leaf, "any": vertex}, self)

    def forward(self, batch: Batch, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(self.net(batch, x=x))


class TreeGRU(torch.nn.Module):
    """A GRU over trees whose children are summed: z and n see the sum of the children, and each child has its own r
    (the Tree-LSTM's way applied to the GRU of Cho et al., EMNLP 2014)::

        s = sum of h_k,   z = sigmoid(W_z x + b_z + U_z s),   r_k = sigmoid(W_r x + b_r + U_r h_k),
        n = tanh(W_n x + b_n + U_n (sum of r_k * h_k)),   h = z * s + (1 - z) * n

    Parameters: W, a Linear [3 out_features, in_features] for z, r and n in this order; U_z, U_r and U_n, each a Linear
    [out_features, out_features] without bias.

    in_features: the width of x.

    out_features: the width of h.

    Called with `x` [rows of the batch, in_features], it returns h [vertices of the batch, out_features].
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.W = torch.nn.Linear(in_features, 3 * out_features)
        for name in ("U_z", "U_r", "U_n"):
            setattr(self, name, torch.nn.Linear(out_features, out_features, bias=False))

        def vertex(v):
            z, r, n = v.linear("W", v.pull("x", in_features)).chunk(3)
            h = v.children().h
            both = h.sum()
            z = (z + v.linear("U_z", both)).sigmoid()
            r = (r + v.linear("U_r", h)).sigmoid()
            n = (n + v.linear("U_n", (r * h).sum())).tanh()
            h = n + z * (both - n)
            v.scatter(h=h)
            v.push(h=h)

        self.net = VertexNet({"h": out_features}, {"any": vertex}, self)

    def forward(self, batch: Batch, x: torch.Tensor) -> torch.Tensor:
        return self.net(batch, x=x).h


class DagGRU(torch.nn.Module):
    """A GRU over directed acyclic graphs whose children are summed behind a gate, as the encoder of D-VAE (Zhang et al.,
    NeurIPS 2019, equations 3 to 5)::

        s = sum of sigmoid(gate h_k) * (mapper h_k),   h = cell(x, s)

    Parameters: cell, a torch.nn.GRUCell(in_features, out_features); gate, a Linear [out_features, out_features]; mapper,
    one without bias.

    in_features: the width of x.

    out_features: the width of h.

    Called with `x` [rows of the batch, in_features], it returns h [vertices of the batch, out_features].
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.cell = torch.nn.GRUCell(in_features, out_features)
        self.gate = torch.nn.Linear(out_features, out_features)
        self.mapper = torch.nn.Linear(out_features, out_features, bias=False)

        def vertex(v):
            child = v.children().h
            s = (v.linear("gate", child).sigmoid() * v.linear("mapper", child)).sum()
            of_x = v.bias("cell.bias_ih", v.matmul("cell.weight_ih", v.pull("x", in_features))).chunk(3)
            of_s = v.bias("cell.bias_hh", v.matmul("cell.weight_hh", s)).chunk(3)
            r, z = ((one + other).sigmoid() for one, other in zip(of_x[:2], of_s[:2], strict=True))
            n = (of_x[2] + r * of_s[2]).tanh()
            h = n + z * (s - n)
            v.scatter(h=h)
            v.push(h=h)

        self.net = VertexNet({"h": out_features}, {"any": vertex}, self)

    def forward(self, batch: Batch, x: torch.Tensor) -> torch.Tensor:
        return self.net(batch, x=x).h
