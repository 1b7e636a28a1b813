"""Rounds of runs that take turns: their order, their medians, and how far they scatter."""

import statistics

# Rounds that lie further apart than this share of their median were disturbed.
DISTURBED = 0.15
# Tuning takes at most this much longer on a busy machine.
PATIENCE = 4.0


def in_turn(kinds, number):
    """The kinds of run in the order of this round: forwards in one, backwards in the next (A B C, C B A, …)."""
    return kinds[:: -1 if number % 2 else 1]


def in_turns(kinds, rounds, run):
    """run(kind, number) of all rounds, in turns: a list of what it returns for each kind."""
    found = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind in in_turn(kinds, number):
            found[kind].append(run(kind, number))
    return found


def slowness(before, after):
    """How many times as long a program takes as on a quiet machine, 1 to PATIENCE. `before` and `after` are the times
    that its threads ran, and that they waited for a processor."""
    ran, waited = (end - start for start, end in zip(before, after, strict=True))
    return min((ran + waited) / ran, PATIENCE) if ran > 0 else 1.0


def totals(report, rounds):
    """An iteration's milliseconds in each round: the sum of the kernels' medians. Rounds are equally long."""
    sums = [0.0] * rounds
    for kernel in report["kernels"]:
        times = kernel["times_ms"]
        length = len(times) // rounds
        for number in range(rounds):
            sums[number] += statistics.median(times[number * length : (number + 1) * length])
    return sums


def scatter(times):
    """The distance of the slowest round from the fastest, as a share of the median."""
    return (max(times) - min(times)) / statistics.median(times)


def verdict(plain, preloaded):
    """Sentences about the scatter of the rounds' totals; of disturbed rounds they also give each round's speed-up."""
    sides = {"plain": plain, "with us": preloaded}
    said = {name: f"{name} by {scatter(times):.0%} ({min(times):,.0f} to {max(times):,.0f} ms)"
            for name, times in sides.items()}  # fmt: skip
    disturbed = [said[name] for name, times in sides.items() if scatter(times) > DISTURBED]
    if not disturbed:
        return f"Rounds in turns, {len(plain)} of each, scatter little: {', '.join(said.values())}."
    each = ", ".join(f"{before / after:.2f}" for before, after in zip(plain, preloaded, strict=True))
    return (f"Rounds in turns, {len(plain)} of each, SCATTER by more than {DISTURBED:.0%}: {', '.join(disturbed)}.\n"
            f"Another program used the machine. Round by round: {each} times as fast. A quiet machine gives a figure "
            "to rely on.")  # fmt: skip
