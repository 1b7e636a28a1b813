"""The performance model's first choice against the best of many configurations, each of which was timed."""

import statistics

from harness.columns import aligned

NETWORKS = [f"{cell}/{type_}/{hidden}/{batch}" for cell in ("lstm", "gru") for type_ in ("float", "half")
            for hidden in (64, 256, 1024) for batch in (1, 10)]  # fmt: skip

LEGEND = """\
Microseconds of a call, for each of its time steps, by the model's first choice and by the fastest of all configurations
that were timed; how much longer the first choice takes; the fastest's rank by the model, and how many ran."""


def gap(line):
    """(first, its time, best, its time, rank of the best, number timed), in milliseconds; None if under two ran."""
    times = (line.get("decision") or {}).get("times", [])
    ran = [(rank, time["what"], time["step_ms"]) for rank, time in enumerate(times, 1) if time["step_ms"] is not None]
    if len(ran) < 2 or ran[0][0] != 1:
        return None
    rank, best, least = min(ran, key=lambda told: told[2])
    return ran[0][1], ran[0][2], best, least, rank, len(ran)


def text(lines):
    table = [["", "first choice", "µs", "best", "µs", "longer by", "rank", "of"]]
    longer = []
    for line in lines:
        found = gap(line)
        if found is None:
            table.append([line["network"], line.get("failed", "too few ran"), *["–"] * 6])
            continue
        first, its, best, least, rank, ran = found
        longer.append(its / least - 1)
        table.append([line["network"], first, f"{1e3 * its:.3f}", best, f"{1e3 * least:.3f}", f"{100 * longer[-1]:.1f}%",
                      str(rank), str(ran)])  # fmt: skip
    shown = [*aligned(table, left=range(8))]
    if longer:
        shown += ["", f"{len(longer)} networks: the first choice takes {100 * statistics.mean(longer):.1f}% longer than the best "
                  f"(median {100 * statistics.median(longer):.1f}%, most {100 * max(longer):.1f}%)"]  # fmt: skip
    return "\n".join([LEGEND, "", *shown]) + "\n"
