"""Fig. 1: AlexNet's layers forward, by plain cuDNN: the best algorithm, one byte less than it needs, no workspace.

The best one is cuDNN's own first choice (cudnnGet…Algorithm_v7), which is the same in each process.
"""

from gpu.figures.convnets import Runs, by_direction
from gpu.figures.papers import NETWORKS
from harness.columns import MEBI

BATCH = 256
LEGEND = """\
Milliseconds of each layer forward by plain cuDNN, and MiB of workspace: cuDNN's first choice; its choice with one byte
less of workspace; with none. In brackets: in times of the best."""
HEADER = ["layer", "best", "MiB", "ms", "one byte less", "MiB", "ms", "no workspace", "ms"]


def run(session):
    runs = Runs(session, "fig1", NETWORKS / "alexnet.csv", session.sized(BATCH, 2))
    kinds = {"best": (["--limit", "none"], {}), "no workspace": (["--limit", "0"], {})}
    # A first run tells the bytes of each layer.
    for kernel in forward(runs.in_turns({"best": kinds["best"]}).get("best", {"kernels": []})):
        if kernel["workspace"]:
            less = ["--limit", kernel["workspace"] - 1, "--layers", kernel["layer"]]
            kinds[f"less {kernel['layer']}"] = (less, {})
    reports = runs.in_turns(kinds)
    if not {"best", "no workspace"} <= reports.keys():
        return
    shown = {"best": reports["best"], "one byte less": merged(reports), "no workspace": reports["no workspace"]}
    session.table("μ-cuDNN's Fig. 1: AlexNet forward", LEGEND, rows(*shown.values()), (0, 1, 4, 7))
    runs.picture("fig1", "Fig. 1: AlexNet forward, plain cuDNN", shown, ("F",))


def forward(report):
    return [kernel for kernel in report["kernels"] if kernel["direction"] == "F"]


def merged(reports):
    """The report of the best algorithms, with those layers in it that ran with one byte less."""
    fewer = [report for kind, report in reports.items() if kind.startswith("less ")]
    own = {kernel["layer"]: kernel for report in fewer for kernel in forward(report)}
    return reports["best"] | {"kernels": [own.get(kernel["layer"], kernel) for kernel in forward(reports["best"])]}


def rows(best, less, none):
    """The table. A layer whose best algorithm needs no workspace has nothing to lose."""
    yield HEADER
    for ours, fewer, bare in zip(*map(forward, (best, less, none)), strict=True):
        ms = ours["median_ms"]
        yield [ours["layer"], *used(ours), f"{ms:.3f}",
               *([*used(fewer), times(fewer["median_ms"], ms)] if fewer is not ours else ["–"] * 3),
               bare["algorithm_name"], times(bare["median_ms"], ms)]  # fmt: skip
    all_of = [by_direction(report, "F") for report in (best, less, none)]
    yield ["all", "", "", f"{all_of[0]:.3f}", "", "", times(all_of[1], all_of[0]), "", times(all_of[2], all_of[0])]


def used(kernel):
    return [kernel["algorithm_name"], f"{kernel['workspace'] / MEBI:.2f}"]


def times(ms, of):
    return f"{ms:.3f} ({ms / of:.2f})"
