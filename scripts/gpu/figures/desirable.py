"""Fig. 8: the desirable set of AlexNet's conv2 forward: time over workspace."""

from gpu.figures.papers import NETWORKS
from harness.columns import MEBI
from harness.variables import fresh

BATCH = 256
POLICIES = ("powerOfTwo", "all")
LEGEND = "{} configurations that no other beats in both time and workspace; times of micro-batches, added up"


def run(session):
    words = [NETWORKS / "alexnet.csv", "--batch", session.sized(BATCH, 8), "--layers", "conv2", "--directions", "F",
             "--math", session.options.math, "--database", fresh(session.out / "fig8.sqlite")]  # fmt: skip
    for policy in POLICIES:
        name = f"fig8-{policy}"
        if not session.begins(name, f"the desirable set of conv2 by {policy}"):
            continue
        sizes = [*words, "--sizes", policy]
        if session.command(f"{name}-tune", "tune", *sizes, "--seconds", f"{session.time / 2:.2f}") is None:
            continue
        alone = [*sizes, "--times", "alone"]

        def plans(limit, name=name, alone=alone):
            return session.plans(f"{name}-plan", *alone, "--limit", limit, may_fail=limit != "none")

        found = list(walk(plans))
        title = f"μ-cuDNN's Fig. 8: the desirable set of AlexNet's conv2 F, sizes by {policy}"
        session.table(title, LEGEND.format(len(found)), rows(found), (2,))
        session.picture(name, "desirable", *alone)


def walk(plans):
    """The desirable set from its fastest configuration down: each next one is the fastest with a byte less. `plans` gives the
    plans within a limit, [] if nothing runs."""
    limit = "none"
    while found := plans(limit):
        (point,) = found[0]["layers"]
        yield point
        if not point["workspace"]:
            return
        limit = point["workspace"] - 1


def rows(points):
    yield ["MiB", "ms", "division"]
    for point in points:
        yield [f"{point['workspace'] / MEBI:.2f}", f"{point['time_ms']:.3f}", point["division"]]
