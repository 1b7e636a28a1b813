"""Vertex nets: ready nets and random ones, widths, graphs, types, static batches, several batches alive.

Cases of one setting come in series that share a net, so that its kernels are compiled once.
"""

from .draw import SHARED, Draw

KINDS = {"child-sum": 4, "tree-gru": 2, "dag-gru": 2, "n-ary": 3, "random": 1}
PRECISIONS = {"float": 4, "tf32": 2, "half": 2, "bfloat16": 2}
# The vertices of a batch, and their number times the multiply-adds of one.
MOST_VERTICES, MOST_WORK, MOST_LEVELS = 3000, 1 << 31, 150


def net(seed, family, number, settings):
    """The net that the cases of a setting share."""
    r = Draw(seed, family, f"{number % settings}/{number // settings // SHARED}", "net")
    kind = r.choices(list(KINDS), list(KINDS.values()))[0]
    precision = "float" if kind == "random" else r.choices(list(PRECISIONS), list(PRECISIONS.values()))[0]
    return {"kind": kind, "precision": precision, "hidden": r.size(512), "input": r.size(320),
            "arity": r.choices((2, 3, 4), (6, 1, 1))[0], "net": r.getrandbits(32)}  # fmt: skip


def draw(seed, family, number, settings, scale=1.0):
    its, r = net(seed, family, number, settings), Draw(seed, family, number)
    way = "eager" if its["kind"] == "random" else r.way(0.2)
    alive = r.choices((1, 2), (3, 1))[0] if way != "captured" else 1
    static = way == "captured" or (its["kind"] != "random" and r.is_so(0.15))
    case = its | {"way": way, "static": static, "alive": alive, "graphs": r.getrandbits(32)}
    if its["kind"] == "random":
        return case | {"children": [], "batches": []}
    count = r.size(256)
    per_vertex = 12 * its["hidden"] * (its["hidden"] + its["input"])
    most = max(int(scale * min(MOST_VERTICES, MOST_WORK // per_vertex)), 1)
    shape = r.weighted(tree=5, chain=2, star=1, wide=2, single=1)
    largest = max(most // count, 1)
    graphs = []
    for _ in range(min(count, most)):
        grown = n_ary if its["kind"] == "n-ary" else shared if its["kind"] == "dag-gru" else tree
        graphs.append(grown(r, shape, min(r.size(max(largest, 1)), 400), its["arity"]))
    case["children"] = graphs
    # Two batches in turns: the second one of fewer graphs, or of the same in another order.
    first = list(range(len(graphs)))
    second = r.sample(first, r.randint(1, len(first)))
    case["batches"] = [first, second if r.is_so(0.6) else list(first)]
    return case


def tree(r, shape, count, arity):
    """Each vertex's children, which have smaller numbers; the root is the last."""
    children = [[] for _ in range(count)]
    if shape == "chain":
        length = min(count, MOST_LEVELS)
        return [[] if v == 0 else [v - 1] for v in range(length)]
    if shape == "star":
        return [[] for _ in range(count - 1)] + [list(range(count - 1))]
    if shape == "single":
        return [[]]
    depth = [0] * count
    for vertex in range(count - 1):
        parent = r.randrange(vertex + 1, count)
        if shape == "wide":
            # Few levels, because all parents are among the last eighth.
            parent = max(parent, count - count // 8 - 1)
        if depth[vertex] + 1 > MOST_LEVELS:
            parent = count - 1
        children[parent].append(vertex)
        depth[parent] = max(depth[parent], depth[vertex] + 1)
    return children


def shared(r, shape, count, arity):
    """A graph whose vertices may be children of several."""
    if shape in ("chain", "star", "single"):
        return tree(r, shape, count, arity)
    near = lambda v: r.sample(range(max(v - 40, 0), v), min(r.randint(0, 4), v))  # noqa: E731
    return [near(v) if v and r.is_so(0.8) else [] for v in range(count)]


def n_ary(r, shape, count, arity):
    """Each vertex has no slots, or `arity` of them, some of which may be empty."""
    if shape == "single":
        return [[]]
    made = tree(r, shape, count, arity)
    found = [[] for _ in made]
    for vertex, wanted in enumerate(made):
        if not wanted:
            continue
        slots = wanted[:arity]
        slots += [-1] * (arity - len(slots))
        r.shuffle(slots)
        found[vertex] = slots
    return found


def draw_products(seed, family, number, settings, scale=1.0):
    """A product with its gradients: rows of the input, and the width of both sides."""
    r = Draw(seed, family, f"{number % settings}/{number // settings // SHARED}", "net")
    precision = r.choices(list(PRECISIONS), list(PRECISIONS.values()))[0]
    its = {"kind": "linear", "precision": precision, "hidden": r.size(1024), "input": r.size(1024), "arity": 0,
           "net": r.getrandbits(32), "bias": r.is_so(0.5)}  # fmt: skip
    r = Draw(seed, family, number)
    way = r.way(0.2)
    rows = r.size(4096)
    while rows > 1 and rows * its["hidden"] * its["input"] > scale * MOST_WORK:
        rows = (rows + 1) // 2
    return its | {"way": way, "static": way == "captured" or r.is_so(0.2), "alive": 1, "graphs": r.getrandbits(32),
                  "children": [[[]]] * rows, "batches": [list(range(rows)), list(range(r.randint(1, rows)))]}  # fmt: skip
