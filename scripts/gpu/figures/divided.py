"""Figs. 12 and 13: Workspace Division: against Reuse at equal bytes, and the bytes of each layer."""

from gpu.division import divide
from gpu.figures.papers import NETWORKS
from harness.columns import MEBI, number
from harness.variables import fresh

# A network, its batch and its total: 8 MiB, then 64 MiB, for each of its kernels.
CASES = [("alexnet", 256, "120MiB"), ("resnet50", 32, "1272MiB"), ("alexnet", 256, "960MiB")]
PLANNED = "120MiB,960MiB,7680MiB"
HEADER = ["total", "Division ms", "MiB", "equal shares ms", "times as fast", "solved in ms"]
LEGEND = "Milliseconds of all kernels by plan; equal shares: Reuse with the same part of the total for each of them."


def measured(session):
    for network, batch, total in session.sized(CASES, CASES[:1]):
        name = f"fig13-{network}-{total}"
        if not session.wants(name) or not session.begins(name, f"Workspace Division: {network}, {total} in all"):
            continue
        table = divide(session, name, (network, batch, "float", total), session.options.math)
        if table is None:
            continue
        session.text(f"μ-cuDNN's Figs. 12 and 13: {network}, {total} in all, runs in turns", table)
        session.picture(name, "division", session.out / f"{name}.jsonl", "--network", NETWORKS / f"{network}.csv",
                        "--title", f"Fig. 13: {network}, {total}")  # fmt: skip


def planned(session):
    """Division and Reuse over a range of totals, by times of each kernel alone."""
    words = [NETWORKS / "alexnet.csv", "--batch", session.sized(256, 2), "--math", session.options.math,
             "--database", fresh(session.out / "fig12.sqlite")]  # fmt: skip
    if not session.begins("fig12", "AlexNet's times for any total"):
        return
    if session.command("fig12-tune", "tune", *words, "--seconds", f"{session.time / 60:.2f}") is not None:
        session.picture("fig12", "totals", *words, "--times", "alone", "--title", "Fig. 12: AlexNet, by plan")
        plans = session.plans("fig12-plan", *words, "--times", "alone", "--total", PLANNED)
        session.table("μ-cuDNN's Fig. 12: AlexNet, planned", LEGEND, rows(plans))


def rows(plans):
    yield HEADER
    for plan in plans:
        equal, ours = plan["equal_shares_ms"], plan["time_ms"]
        yield [f"{plan['total'] / MEBI:.0f} MiB", f"{ours:.2f}", f"{plan['workspace'] / MEBI:.2f}", number(equal, ".2f"),
               number(equal and equal / ours, ".2f"), number(plan["solve_ms"], ".2f")]  # fmt: skip
