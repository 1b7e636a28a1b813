"""The networks to measure, the most valuable first; and the speed-ups to reach."""

CELLS = ("lstm", "gru", "tanh", "relu")
TYPES = ("float", "half", "tf32", "bfloat16")
SIZES = (64, 128, 256, 512, 1024, 1536)
BATCHES = (1, 4, 10, 20, 32, 64)

# Least and intended speed-ups of an LSTM and of a GRU over cuDNN's best algorithm, by (H, batch), for STEPS steps and
# inputs as wide as the hidden state.
STEPS = 100
FLOORS = {
    "float": {(64, 1): (1.3, 1.8), (64, 10): (1.3, 1.8), (64, 20): (1.3, 1.8),
              (256, 1): (2.0, 3.5), (256, 10): (2.5, 5), (256, 20): (2.5, 5),
              (1024, 1): (2.0, 3.5), (1024, 10): (1.3, 2.0), (1024, 20): (1.1, 1.5)},
    "half": {(64, 1): (1.2, 1.6), (64, 10): (1.2, 1.6), (64, 20): (1.2, 1.6),
             (256, 1): (1.8, 3.0), (256, 10): (1.5, 2.5), (256, 20): (1.5, 2.5),
             (1024, 1): (1.5, 2.5), (1024, 10): (1.1, 1.6), (1024, 20): (1.0, 1.3)},
}  # fmt: skip
FLOORS_OF = ("lstm", "gru")
# No network may become slower than this.
LEAST = 0.98


def floor_of(network, steps):
    """The floor and the goal of a network CELL/TYPE/HIDDEN/BATCH; LEAST and None if FLOORS does not have it."""
    cell, type_, hidden, batch = network.split("/")
    table = FLOORS.get(type_, {}) if cell in FLOORS_OF and steps == STEPS else {}
    return table.get((int(hidden), int(batch)), (LEAST, None))


def grid():
    """All networks, once each."""
    told = list(FLOORS["float"])
    # The largest gains first.
    first = sorted(told, key=lambda place: ((256, 1024, 64).index(place[0]), place[1]))
    everywhere = [(hidden, batch) for hidden in SIZES for batch in BATCHES]
    stages = [
        *((cell, ("float", "half"), first) for cell in FLOORS_OF),
        ("lstm", ("float", "half"), everywhere),
        ("lstm", ("tf32", "bfloat16"), first),
        ("gru", ("float", "half"), everywhere),
        ("tanh", ("float", "half"), first),
        ("relu", ("float", "half"), first),
        *((cell, TYPES, everywhere) for cell in CELLS),
    ]
    found = {}
    for cell, types, places in stages:
        for hidden, batch in places:
            for type_ in types:
                found[f"{cell}/{type_}/{hidden}/{batch}"] = None
    return list(found)
