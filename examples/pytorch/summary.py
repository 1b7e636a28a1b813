"""Ratios of runs under libucudnn.so to plain runs, and their table as text."""

import statistics
from dataclasses import dataclass

import cells
from harness.arguments import is_like
from harness.columns import MEBI, aligned, number

CONFIGURATION = ("network", "layout", "precision", "benchmark", "mode")
HEADER = ["", "runs", "plain ms", "±%", "ms", "ratio", "least–most", "channels_last", "ratio", "conv plain", "ms",
          "ratio", "device MiB", "ours", "settled", "ours", "torch", "ours", "workspace", "ours", "gradients",
          "others"]  # fmt: skip


@dataclass
class Row:
    """A cell under a policy, compared with plain, over all runs. Milliseconds and bytes; `None` if unknown."""

    configuration: tuple
    policy: str
    runs: int
    plain: dict  # medians over the plain runs
    ours: dict
    scatter: float  # (longest - shortest) / median of the plain runs' steps
    ratio: float  # between the medians of the steps
    least: float  # the rounds' least ratio
    most: float
    beside: float | None  # in NCHW, the median of plain's steps in channels_last
    over_beside: float | None  # … and our steps' ratio to it, over the rounds that have both
    gradients: float | None  # the largest ratio of errors against float64, over the convolutions' parameters
    others: float | None  # … and over all other parameters
    settled: bool

    def ratio_of(self, value):
        plain, ours = self.plain[value], self.ours[value]
        return ours / plain if plain and ours is not None else None


MEASURED = ("step_ms", "convolution_ms", "device_peak", "device_settled", "torch_peak", "workspace")


def rows(lines, patterns=()):
    """Rows, the most valuable cells first; only of cells whose name matches a pattern, if there are patterns."""
    found = {}
    for line in lines:
        if "failed" not in line:
            configuration = tuple(line[name] for name in CONFIGURATION)
            found.setdefault((configuration, line["group"], line["policy"]), {})[line["round"]] = line
    pairs = {}
    for (configuration, group, policy), by_round in found.items():
        plain = found.get((configuration, group, cells.PLAIN), {})
        beside = found.get((cells.beside(configuration), group, cells.BESIDE), {})
        name = "/".join((*configuration, policy))
        if policy in cells.POLICIES and is_like(name, patterns):
            known = pairs.setdefault((configuration, policy), [])
            known += [(plain[number], by_round[number], beside.get(number))
                      for number in sorted(by_round.keys() & plain.keys())]  # fmt: skip
    order = {}
    for *configuration, modes, _, _ in (stage for phase in cells.phases() for stage in phase):
        for mode in modes:
            order.setdefault((*configuration, mode), len(order))
    policies = list(cells.POLICIES)
    keys = sorted((key for key in pairs if pairs[key]), key=lambda key: (order[key[0]], policies.index(key[1])))
    return [row(*key, pairs[key]) for key in keys]


def row(configuration, policy, pairs):
    plain, ours = ([pair[side] for pair in pairs] for side in (0, 1))
    times = [line["step_ms"] for line in plain]
    ratios = [b["step_ms"] / a["step_ms"] for a, b, _ in pairs]
    both = [(ours["step_ms"], beside["step_ms"]) for _, ours, beside in pairs if beside]
    ours_then, beside = (middle(steps) for steps in zip(*both, strict=True)) if both else (None, None)
    middles = [{value: middle(line[value] for line in side) for value in MEASURED} for side in (plain, ours)]
    return Row(
        configuration, policy, len(pairs), *middles,
        scatter=(max(times) - min(times)) / statistics.median(times),
        ratio=middles[1]["step_ms"] / middles[0]["step_ms"], least=min(ratios), most=max(ratios),
        beside=beside, over_beside=ours_then / beside if both else None,
        gradients=worst_error(plain, ours, "convolutions"), others=worst_error(plain, ours, "others"),
        settled=all(line["settled"] for line in ours),
    )  # fmt: skip


def middle(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def worst_error(plain, ours, kind):
    """The largest ratio, over parameters, of our error to plain's (medians over runs); infinite if only plain's is
    finite."""

    def medians(lines):
        errors = [line["errors"][kind] for line in lines if line["errors"]]
        infinite = float("inf")
        return {name: statistics.median(infinite if e[name] is None else e[name] for e in errors) for name in
                (errors[0] if errors else {})}  # fmt: skip

    before, after = medians(plain), medians(ours)
    ratios = [1.0 if after[name] == error else after[name] / error if error else float("inf")
              for name, error in before.items() if name in after]  # fmt: skip
    return max(ratios, default=None)


def line_of(row):
    plain, ours = row.plain, row.ours
    mebi = [number(side[value], ",.0f", MEBI) for value in MEASURED[2:] for side in (plain, ours)]
    return [
        f"  {row.policy}{'' if row.settled else ' *'}", str(row.runs),
        number(plain["step_ms"], ".2f"), number(100 * row.scatter, ".1f"), number(ours["step_ms"], ".2f"),
        number(row.ratio, ".3f"), f"{row.least:.3f}–{row.most:.3f}",
        number(row.beside, ".2f"), number(row.over_beside, ".3f"),
        number(plain["convolution_ms"], ".2f"), number(ours["convolution_ms"], ".2f"),
        number(row.ratio_of("convolution_ms"), ".3f"), *mebi, number(row.gradients, ".2f"), number(row.others, ".2f"),
    ]  # fmt: skip


def text(rows, failed):
    if not rows:
        return "\n".join(["No cell is finished, plain and under libucudnn.so.", *failures(failed)]) + "\n"
    lines = [HEADER]
    for at, row_ in enumerate(rows):
        if at == 0 or rows[at - 1].configuration != row_.configuration:
            lines.append([title(row_.configuration)])
        lines.append(line_of(row_))
    return "\n".join([LEGEND, "", *aligned(lines), "", *by_policy(rows), *failures(failed)]) + "\n"


def title(configuration):
    network, layout, precision, benchmark, mode = configuration
    return f"{network}, {layout}, {precision}, benchmark {benchmark}, {mode}"


def by_policy(rows):
    """Each policy's ratios over all cells."""
    lines = [["policy", "cells", "step: worst", "median", "best", "device MiB: worst", "gradients: worst",
              "to channels_last: worst", "median", "best", "against undivided: worst", "median",
              "best"]]  # fmt: skip
    known = {(row.configuration, row.policy): row for row in rows}
    for policy in cells.POLICIES:
        its = [row for row in rows if row.policy == policy]
        if not its:
            continue
        ratios = [row.ratio for row in its]
        against = [row.ours["step_ms"] / other.ours["step_ms"] for row in its
                   if (other := known.get((row.configuration, f"undivided {policy}")))]  # fmt: skip
        memory = [ratio for row in its if (ratio := row.ratio_of("device_peak")) is not None]
        errors = [row.gradients for row in its if row.gradients is not None]
        beside = [row.over_beside for row in its if row.over_beside is not None]
        lines.append([policy, str(len(its))] + [number(value, ".3f") for value in (
            max(ratios), statistics.median(ratios), min(ratios), max(memory, default=None), max(errors, default=None),
            max(beside, default=None), middle(beside), min(beside, default=None),
            max(against, default=None), middle(against), min(against, default=None),
        )])  # fmt: skip
    return ["Ratios by policy, over all cells above:", *aligned(lines)]


def failures(lines):
    if not lines:
        return []
    names = ["/".join(str(line[name]) for name in (*CONFIGURATION, "policy", "round")) for line in lines]
    return ["", f"{len(lines)} cells failed:", *(f"  {name}: {line['failed']}" for name, line in zip(names, lines))]


LEGEND = """\
A training step (forward, loss, backward, SGD), plain and under libucudnn.so, in turns, each run a process of its own.
ms: the median over the runs of each run's median step; ±%: longest less shortest plain run; ratio: ours to plain, below
1 is faster; least–most: of the rounds. channels_last: for a cell in NCHW, plain's step of the same network in
channels_last, in the same turns, and our step's ratio to it. conv: the convolutions' kernels alone, by PyTorch's
profiler. device MiB: the most in use on the device by the driver's count, from a mode's begin to its end (2 MiB pieces,
looked at every 5 ms); settled: the same in three steps after the warm-up, with PyTorch's cache emptied before. torch:
the most that PyTorch had handed out in those; workspace: the largest that a convolution took of PyTorch. gradients:
||g - g64|| / ||g64|| against float64 over some mini-batches, ours to plain's, the largest over the convolutions'
parameters; others: over the rest but fully connected layers. unset: nothing configured; 0, 8MiB, …:
UCUDNN_WORKSPACE_LIMIT; undivided: the same with UCUDNN_BATCH_SIZE_POLICY=undivided; division:
UCUDNN_TOTAL_WORKSPACE_SIZE. *: not settled within the warm-up."""
