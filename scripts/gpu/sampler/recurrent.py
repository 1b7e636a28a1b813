"""Recurrent networks, in inference and in training: cells, widths, layers, directions, layouts, lengths, types.

Cases of one setting come in series that share a network. So its kernels are compiled once for several batches.
"""

from .draw import SHARED, Draw, cut

CELLS = {"lstm": 5, "gru": 4, "tanh": 1, "relu": 1}
GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
PRECISIONS = {"float": 3, "tf32": 2, "half": 3, "bfloat16": 3}
# The multiply-adds of a pass forward, and the steps of all layers: in double precision each is some launches.
MOST_WORK, MOST_STEPS = 1 << 31, 400
# The calls after which a network, in the last setting, has been tried on our kernels.
EXPLORED = 80


def network(seed, family, number, settings):
    """The network that the cases of a setting share."""
    r = Draw(seed, family, f"{number % settings}/{number // settings // SHARED}", "network")
    cell = r.choices(list(CELLS), list(CELLS.values()))[0]
    precision = r.choices(list(PRECISIONS), list(PRECISIONS.values()))[0]
    hidden = r.size(1024)
    its = {"cell": cell, "precision": precision, "hidden": hidden, "input": hidden if r.is_so(0.3) else r.size(512),
           "layers": r.choices((1, 2, 3, 5), (5, 3, 1, 1))[0], "directions": r.choices((1, 2), (2, 1))[0],
           "bias": r.is_so(0.8)}  # fmt: skip
    return its | {"projection": projection(r, its)}


def projection(r, its):
    """The width of a network's projection; 0 without one."""
    return r.size(its["hidden"] - 1) if its["cell"] == "lstm" and its["hidden"] > 1 and r.is_so(0.3) else 0


def _case(seed, family, number, settings, scale):
    its, r = network(seed, family, number, settings), Draw(seed, family, number)
    exploring = number % settings == settings - 1
    sizes = {"batch": r.size(256), "steps": r.size(200)}
    runs = its["layers"] * its["directions"]
    width = its["hidden"] * (its["hidden"] + max(its["input"], its["hidden"])) * GATES[its["cell"]] * runs
    cut(sizes, lambda its: max(its["batch"] * its["steps"] * width / MOST_WORK, its["steps"] * runs / MOST_STEPS), scale)
    layout = r.weighted(seq=3, batch=2, packed=2, unsorted=1)
    lengths = [sizes["steps"]] * sizes["batch"]
    if layout in ("packed", "unsorted"):
        lengths = [r.size(sizes["steps"]) for _ in range(sizes["batch"])]
        lengths[r.randrange(len(lengths))] = sizes["steps"]
        if layout == "packed":
            lengths.sort(reverse=True)
    case = its | sizes | {"layout": layout, "lengths": lengths, "states": r.is_so(0.5), "way": r.way(),
                          "calls": EXPLORED if exploring and r.is_so(0.5) else 3}  # fmt: skip
    return r, case


def draw_inference(seed, family, number, settings, scale=1.0):
    _, case = _case(seed, family, number, settings, scale)
    return case | {"training": False, "alive": 1, "twice": False, "retain": False, "offload": False}


def draw_training(seed, family, number, settings, scale=1.0):
    """Some passes keep the reserves of several networks, and go back in another order."""
    r, case = _case(seed, family, number, settings, scale)
    if case["cell"] == "relu" and (case["precision"] != "float" or case["hidden"] * case["batch"] * case["steps"] > 2048):
        # Its gradient jumps at 0, where rounding alone decides on which side a number falls.
        case["cell"] = "tanh"
    alive = r.choices((1, 2, 3), (3, 2, 1))[0] if case["way"] != "captured" else 1
    case |= {"training": True, "alive": alive, "twice": r.is_so(0.3), "retain": r.is_so(0.2),
             "offload": r.is_so(0.1) and case["way"] != "captured"}  # fmt: skip
    return case


def draw_sizes(seed, family, number, settings, scale=1.0):
    """Networks whose spaces are asked for again and again, in this order."""
    r = Draw(seed, family, number)
    networks = []
    for _ in range(r.randint(2, 6)):
        steps, batch = r.size(60), r.size(40)
        lengths = sorted((r.size(steps) if r.is_so(0.5) else steps for _ in range(batch)), reverse=True)
        lengths[0] = steps
        its = {
            "cell": r.choice(list(CELLS)), "precision": r.choice(("float", "half", "bfloat16")), "hidden": r.size(256),
            "input": r.size(128), "layers": r.randint(1, 3), "directions": r.randint(1, 2), "bias": r.is_so(0.8),
            "lengths": lengths, "layout": r.choice(("seq", "batch", "packed")),
        }  # fmt: skip
        networks.append(its | {"projection": projection(r, its)})
    asks = [[r.randrange(len(networks)), r.is_so(0.7)] for _ in range(40)]
    return {"networks": networks, "asks": asks}
