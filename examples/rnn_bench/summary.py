"""Ratios of `rnn_bench`'s measurements, as text and as CSV."""

import csv
import math
import statistics
from dataclasses import dataclass

import networks
from harness.columns import aligned, number

MODES = ("stream", "graph")
ALGORITHMS = ("STANDARD", "PERSIST_STATIC", "PERSIST_DYNAMIC", "PERSIST_STATIC_SMALL_H")
SHORT = dict(zip(ALGORITHMS, ("standard", "static", "dynamic", "small H"), strict=True))


@dataclass
class Row:
    """A network's line of results."""

    line: dict

    def __post_init__(self):
        self.network = self.line["network"]
        self.contenders = {contender["name"]: contender for contender in self.line.get("contenders", [])}
        self.floor, self.goal = networks.floor_of(self.network, self.line["steps"])

    def rounds(self, name, mode):
        """Milliseconds of each round; None if it did not run in this mode."""
        return self.contenders.get(name, {}).get(f"{mode}_ms")

    def time(self, name, mode):
        rounds = self.rounds(name, mode)
        return statistics.median(rounds) if rounds else None

    def error(self, name, modes=MODES):
        """The worst error against double precision; None if there was no comparison."""
        contender = self.contenders.get(name, {})
        told = [contender[f"{mode}_error"] for mode in modes if f"{mode}_error" in contender]
        if not self.line["rows_checked"] or not told:
            return None
        return math.nan if None in told else max(told)

    def best(self, mode):
        """cuDNN's fastest algorithm; None if none ran in this mode."""
        times = {name: time for name in ALGORITHMS if (time := self.time(name, mode)) is not None}
        return min(times, key=times.get) if times else None

    def faster(self, mode):
        """Our speed-up over cuDNN's best algorithm, and that speed-up in its worst and its best round; None if one of
        the two did not run."""
        best, ours = self.best(mode), self.rounds("ours", mode)
        if best is None or not ours:
            return None
        ratios = [a / b for a, b in zip(self.rounds(best, mode), ours, strict=True)]
        return self.time(best, mode) / self.time("ours", mode), min(ratios), max(ratios)

    @property
    def chosen(self):
        """The configuration on which ours settled."""
        return (self.line.get("decision") or {}).get("chosen", "not settled") if "ours" in self.contenders else "–"

    @property
    def is_below(self):
        """Whether ours is below its floor, on a stream or as a graph, in every round."""
        return any(faster[2] < self.floor for mode in MODES if (faster := self.faster(mode)))


HEADER = ["", *(SHORT[name] for name in ALGORITHMS), "ours", "faster", "least–most", "graph: best", "ours", "faster",
          "least–most", "floor", "goal", "error", "ours", "chosen"]  # fmt: skip

LEGEND = """\
One call of cudnnRNNForward in milliseconds, 100 steps unless said otherwise, on a stream and as a CUDA graph: medians
of each round's median. faster: cuDNN's best algorithm to ours; least–most: of the rounds. error: ||y - y64|| / ||y64||
of cuDNN's best and of ours, the worst of y and the last states, on the stream and of the graph. –: cuDNN refuses it, or
it was not compared.
floor and goal: what `faster` is to be and is meant to be; !: below its floor in every round."""


def line_of(row):
    steps = row.line["steps"]
    cells = [row.network + (f" T{steps}" if steps != networks.STEPS else "") + (" !" if row.is_below else "")]
    cells += [number(row.time(name, "stream"), ".3f") for name in (*ALGORITHMS, "ours")]
    cells += ratio(row.faster("stream"))
    best = row.best("graph")
    cells += [number(row.time(name, "graph") if name else None, ".3f") for name in (best, "ours")]
    cells += ratio(row.faster("graph"))
    cells += [f"{row.floor:.2f}", number(row.goal, ".1f")]
    cells += [number(row.error(name) if name else None, ".1e") for name in (row.best("stream"), "ours")]
    return [*cells, row.chosen]


def ratio(faster):
    return [f"{faster[0]:.2f}", f"{faster[1]:.2f}–{faster[2]:.2f}"] if faster else ["–", "–"]


def text(rows, failed):
    lines = [*aligned([HEADER, *map(line_of, rows)], (0, len(HEADER) - 1)), "", *told(rows)] if rows else ["No network is finished."]
    lines += [f"failed: {line['network']}: {line['failed']}" for line in failed]
    where = sorted({f"{row.line['device']}, cuDNN {row.line['cudnn']}" for row in rows})
    return "\n".join([LEGEND, *where, "", *lines]) + "\n"


def told(rows):
    """A line for each mode about all networks."""
    for mode in MODES:
        ratios = {row.network: faster[0] for row in rows if (faster := row.faster(mode))}
        if not ratios:
            continue
        worst = min(ratios, key=ratios.get)
        floors = [row for row in rows if row.goal and row.network in ratios]
        met = sum(ratios[row.network] >= row.floor for row in floors)
        reached = sum(ratios[row.network] >= row.goal for row in floors)
        below = sum(ratio < networks.LEAST for ratio in ratios.values())
        yield (f"{mode}: {len(ratios)} networks, median {statistics.median(ratios.values()):.2f} times as fast, least "
               f"{ratios[worst]:.2f} ({worst}), {below} below {networks.LEAST}; "
               f"{met} of {len(floors)} floors met, {reached} goals reached")  # fmt: skip


def write_csv(path, rows):
    columns = ["network", "cell", "type", "hidden", "batch", "steps", "device", "cudnn"]
    names = [*ALGORITHMS, "ours"]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        timed = [f"{name} {mode} {what}" for mode in MODES for name in names for what in ("ms", "error")]
        compared = [f"{mode} {what}" for mode in MODES for what in ("best", "faster", "least", "most")]
        writer.writerow([*columns, *timed, *compared, "floor", "goal", "chosen"])
        for row in rows:
            cells = [row.line[column] for column in columns]
            for mode in MODES:
                for name in names:
                    cells += [row.time(name, mode), row.error(name, (mode,))]
            for mode in MODES:
                cells += [row.best(mode), *(row.faster(mode) or (None,) * 3)]
            writer.writerow([*cells, row.floor, row.goal, row.chosen])
