"""The ready vertex nets in plain PyTorch: all vertices of a level at once, in any type.

Formulas are those of python/ucudnn/nn.py. States of all vertices so far are one tensor, which begins with a row of zeros
for empty slots.
"""

import itertools

import torch
import torch.nn.functional as F


class Levels:
    """The vertices of a batch by levels. `graphs`: each vertex's children; "leaves" says that only leaves pull."""

    def __init__(self, graphs, rows, device):
        children, base = [], 0
        for graph in graphs:
            children += [[child if child < 0 else base + child for child in its] for its in graph]
            base += len(graph)
        self.vertices = len(children)
        level = [0] * self.vertices
        for vertex in _in_order(children):
            level[vertex] = 1 + max((level[child] for child in children[vertex] if child >= 0), default=-1)
        # A vertex with empty slots alone is not a leaf, and its level is the first one too.
        self.count = max(level) + 1
        order = sorted(range(self.vertices), key=lambda vertex: level[vertex])
        place = {vertex: 1 + position for position, vertex in enumerate(order)}
        tensor = lambda numbers: torch.tensor(numbers, dtype=torch.int64, device=device)  # noqa: E731
        leaves = itertools.count()
        pulls = [next(leaves) if not its else -1 for its in children] if rows == "leaves" else list(range(self.vertices))
        self.rows = sum(row >= 0 for row in pulls)
        self.back = tensor([place[vertex] for vertex in range(self.vertices)])
        self.levels = []
        for _, its in itertools.groupby(order, key=lambda vertex: level[vertex]):
            its = list(its)
            slots = [[place[child] if child >= 0 else 0 for child in children[vertex]] for vertex in its]
            edges = [(number, child) for number, row in enumerate(slots) for child in row if child]
            self.levels.append({
                "pulled": tensor([pulls[vertex] for vertex in its]), "count": len(its),
                "parents": tensor([number for number, _ in edges]), "children": tensor([child for _, child in edges]),
                "leaf": tensor([not row for row in slots]).bool(),
                # The child in each slot, and zeros for leaves. All other vertices have equally many slots.
                "table": tensor([row or [0] * max(map(len, slots)) for row in slots]) if rows == "leaves" else None,
            })  # fmt: skip


def _in_order(children):
    """All vertices, children before parents."""
    done = [False] * len(children)
    for root in range(len(children)):
        stack = [root]
        while stack:
            vertex = stack[-1]
            waiting = [] if done[vertex] else [child for child in children[vertex] if child >= 0 and not done[child]]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if not done[vertex]:
                done[vertex] = True
                yield vertex


def run(kind, weights, x, levels):
    """The states of all vertices, in the caller's order."""
    if kind == "linear":
        return (F.linear(x, weights["W.weight"], weights.get("W.bias")),)
    cell = {"child-sum": child_sum, "tree-gru": tree_gru, "dag-gru": dag_gru, "n-ary": n_ary}[kind]
    states = None
    for level in levels.levels:
        made = cell(weights, x, states, level)
        if states is None:
            states = [its.new_zeros(1, its.shape[1]) for its in made]
        states = [torch.cat([before, its]) for before, its in zip(states, made, strict=True)]
    return tuple(its[levels.back] for its in states)


def summed(of_edges, level, width):
    """The sum over each vertex's children."""
    return of_edges.new_zeros(level["count"], width).index_add(0, level["parents"], of_edges)


def child_sum(w, x, states, level):
    x = x[level["pulled"]]
    gates = F.linear(x, w["W_iou.weight"], w["W_iou.bias"])
    kept = 0
    if len(level["children"]):
        h, c = (its[level["children"]] for its in states)
        width = h.shape[1]
        gates = gates + F.linear(summed(h, level, width), w["U_iou.weight"])
        f = F.linear(x, w["W_f.weight"], w["W_f.bias"])[level["parents"]] + F.linear(h, w["U_f.weight"])
        kept = summed(f.sigmoid() * c, level, width)
    i, o, u = gates.chunk(3, 1)
    c = i.sigmoid() * u.tanh() + kept
    return o.sigmoid() * c.tanh(), c


def tree_gru(w, x, states, level):
    z, r, n = F.linear(x[level["pulled"]], w["W.weight"], w["W.bias"]).chunk(3, 1)
    both = torch.zeros_like(z)
    if len(level["children"]):
        h = states[0][level["children"]]
        width = h.shape[1]
        both = summed(h, level, width)
        z = z + F.linear(both, w["U_z.weight"])
        r = (r[level["parents"]] + F.linear(h, w["U_r.weight"])).sigmoid()
        n = n + F.linear(summed(r * h, level, width), w["U_n.weight"])
    n = n.tanh()
    return (n + z.sigmoid() * (both - n),)


def dag_gru(w, x, states, level):
    of_x = F.linear(x[level["pulled"]], w["cell.weight_ih"], w["cell.bias_ih"]).chunk(3, 1)
    s = torch.zeros_like(of_x[0])
    if len(level["children"]):
        h = states[0][level["children"]]
        gated = F.linear(h, w["gate.weight"], w["gate.bias"]).sigmoid() * F.linear(h, w["mapper.weight"])
        s = summed(gated, level, s.shape[1])
    of_s = F.linear(s, w["cell.weight_hh"], w["cell.bias_hh"]).chunk(3, 1)
    r, z = ((one + other).sigmoid() for one, other in zip(of_x[:2], of_s[:2], strict=True))
    n = (of_x[2] + r * of_s[2]).tanh()
    return (n + z * (s - n),)


def n_ary(w, x, states, level):
    """The leaves of a level first, then the others: both are there in the first one alone."""
    leaf, count = level["leaf"], level["count"]
    made = []
    if bool(leaf.any()):
        i, o, u = F.linear(x[level["pulled"][leaf]], w["W_iou.weight"], w["W_iou.bias"]).chunk(3, 1)
        c = i.sigmoid() * u.tanh()
        made.append((leaf, o.sigmoid() * c.tanh(), c))
    if not bool(leaf.all()):
        table = level["table"][~leaf]
        arity = table.shape[1]
        width = w["U_iou.weight"].shape[0] // 3
        zeros = x.new_zeros(1, width)
        h, c = (zeros if states is None else its for its in (states or (None, None)))
        slots = h[table].flatten(1)
        gates = F.linear(slots, w["U_f.weight"], w["U_f.bias"]).sigmoid()
        kept = (gates * c[table].flatten(1)).unflatten(1, (arity, width)).sum(1)
        i, o, u = F.linear(slots, w["U_iou.weight"], w["U_iou.bias"]).chunk(3, 1)
        c = i.sigmoid() * u.tanh() + kept
        made.append((~leaf, o.sigmoid() * c.tanh(), c))
    states = []
    for place in (1, 2):
        whole = made[0][place].new_zeros(count, made[0][place].shape[1])
        for rows, *its in made:
            whole = whole.index_put((rows.nonzero()[:, 0],), its[place - 1])
        states.append(whole)
    return tuple(states)
