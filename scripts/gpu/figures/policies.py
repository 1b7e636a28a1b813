"""Figs. 9 to 11: micro-batches of sizes by policy, under a limit a kernel: convolutions, whole iterations, time to plan."""

import demo
from gpu import machine
from gpu.figures.convnets import DIRECTIONS, Runs, by_direction
from gpu.figures.papers import NETWORKS
from harness.columns import MEBI, number
from harness.variables import fresh

POLICIES = ("undivided", "powerOfTwo", "all")
# The largest first: the smaller find some of their times.
LIMITS = ("512MiB", "64MiB", "8MiB")
# The most telling first.
OF_STEPS = ("64MiB", "8MiB", "512MiB")
# The share of a part's time that `all` may take to plan, for each limit.
PLANNING = 0.12
# PyTorch's arithmetic for a math type of cuDNN's.
PRECISIONS = {"default": "tf32", "fma": "float"}
HEADER = ["limit", "policy", "convolutions ms (least to most)", "undivided", *DIRECTIONS, "divided", "largest MiB",
          "planning s"]  # fmt: skip
LEGEND = """\
Milliseconds of an iteration's convolutions, through the legacy API, and of its directions; undivided: how many times
as fast as by that policy; divided: kernels in several micro-batches; largest MiB: the largest workspace of a kernel;
planning: from an empty database at the first limit of a policy, then with its times. `all` had {:.2f} s a kernel to
plan at the last limit; without a bound it takes longer, and may find better."""
STEPS = ["limit", "policy", "step ms (p10 to p90)", "undivided", "convolutions ms", "PyTorch's peak MiB", "settled"]
OF_STEP = "Milliseconds of a training step in PyTorch, and of its convolutions' kernels; undivided: as above."


def alexnet(session):
    convolutions(session, "Fig. 9", "alexnet", session.sized(256, 2))


def alexnet_steps(session):
    steps(session, "Fig. 10", "alexnet", 256)


def resnet18(session):
    convolutions(session, "Fig. 11", "resnet18", session.sized(128, 2))


def resnet18_steps(session):
    steps(session, "Fig. 11", "resnet18", 128)


def convolutions(session, figure, network, batch):
    """Plain and the policies in turns, for each limit."""
    runs = Runs(session, f"{name_of(figure)}-{network}", NETWORKS / f"{network}.csv", batch)
    databases = {policy: fresh(session.out / f"{runs.name}-{policy}.sqlite") for policy in POLICIES}
    table, count = [HEADER], 3 * (len(runs.network.read_text().splitlines()) - 1)
    for limit in LIMITS:
        if not session.wants(f"{runs.name}-{limit}") or not session.begins(f"{figure}, {limit}"):
            continue
        most = PLANNING * session.time / count
        kinds = {f"plain {limit}": (["--limit", limit], {})}
        for policy in POLICIES:
            more = {"UCUDNN_TUNE_SECONDS": f"{most:.2f}"} if policy == "all" else {}
            ours = runs.ours(f"{policy} {limit}", databases[policy], UCUDNN_BATCH_SIZE_POLICY=policy,
                             UCUDNN_WORKSPACE_LIMIT=limit, **more)  # fmt: skip
            kinds[f"{policy} {limit}"] = (["--limit", limit], ours)
        reports = runs.in_turns(kinds)
        decisions = {kind: demo.read_plans(runs.file(kind, "jsonl")) for kind in reports}
        table += rows(limit, reports, decisions, runs.totals)
        runs.picture(f"{runs.name}-{limit}", f"{figure}: {network}, batch {batch}, {limit} a kernel", reports)
    if len(table) > 1:
        session.table(f"μ-cuDNN's {figure}: {network}, batch {batch}", LEGEND.format(most), table, (0, 1))


def rows(limit, reports, decisions, totals):
    """A row for each kind of run under a limit. `totals` gives the median, least and most milliseconds of a report."""
    undivided = reports.get(f"undivided {limit}")
    for kind, report in reports.items():
        middle, least, most = totals(report)
        plans = [demo.plan_of(kernel, decisions[kind]) for kernel in report["kernels"]]
        divided = sum(plan is not None and sum(part["count"] for part in plan["parts"]) > 1 for plan in plans)
        yield [limit, kind.split()[0], f"{middle:.2f} ({least:.2f} to {most:.2f})",
               f"{totals(undivided)[0] / middle:.2f}" if undivided else "–",
               *(f"{by_direction(report, direction):.2f}" for direction in DIRECTIONS), f"{divided}/{len(plans)}",
               f"{report['workspace_total'] / MEBI:.2f}", f"{report['asking_ms'] / 1e3:.2f}"]  # fmt: skip


def steps(session, figure, network, batch):
    """Whole iterations, each of a process of its own. Those that OUT has are not run again; plain has no limit."""
    if not session.python:
        return
    name = f"{name_of(figure)}-{network}-step"
    words = ["--network", network, "--precision", PRECISIONS[session.options.math]]
    words += session.sized(["--batch", batch, "--warm-up-seconds", 8], ["--tiny", "--least", 2, "--most", 4, "--seconds", 0.1])
    results = session.results(name)
    wanted = {f"{name}-plain": ("plain", None)}
    wanted |= {f"{name}-{policy}-{limit}": (policy, limit) for limit in OF_STEPS for policy in POLICIES}
    missing = {what: run for what, run in wanted.items() if session.wants(what) and not results.is_there(what)}
    databases = {policy: session.out / f"{name}-{policy}.sqlite" for policy in POLICIES}
    turn = lambda policy: ["--turn", "loaded" if policy == "plain" else "begun"]  # noqa: E731
    runs = {what: ([*words, *turn(run[0])], under(session, what, databases, *run)) for what, run in missing.items()}
    # Each policy's kernels are compiled within one limit. They stay beside its database, whose times are thrown away.
    fillers = {f"{name}-compiled-{run[0]}": run for run in reversed(missing.values()) if run[0] != "plain" and not session.host}
    fillers = {what: ([*words, "--seconds", 0.1], under(session, what, databases, *run)) for what, run in fillers.items()}
    begins = lambda: [fresh(database) for database in databases.values()]  # noqa: E731
    session.leave_out(f"{figure}, whole iterations", session.in_turns(results, runs, fillers, begins))
    table = list(step_rows({wanted[what]: line for what, line in results.lines.items() if what in wanted}))
    if table:
        session.table(f"μ-cuDNN's {figure}: a whole iteration of {network}", OF_STEP, [STEPS, *table], (0, 1, 6))


def under(session, what, databases, policy, limit):
    """The variables of a step by a policy within a limit."""
    if policy == "plain":
        return {}
    return machine.ours(session.options, session.out / f"{what}.report.jsonl", UCUDNN_EXPLORE="unbounded",
                        UCUDNN_DATABASE=databases[policy], UCUDNN_BATCH_SIZE_POLICY=policy, UCUDNN_WORKSPACE_LIMIT=limit)  # fmt: skip


def step_rows(found):
    """A row for each line, by its policy and limit; plain has none."""
    for (policy, limit), line in found.items():
        peak, undivided = line["torch_peak"], found.get(("undivided", limit))
        yield [limit or "none", policy, f"{line['step_ms']:.2f} ({line['p10_ms']:.2f} to {line['p90_ms']:.2f})",
               f"{undivided['step_ms'] / line['step_ms']:.2f}" if undivided else "–", f"{line['convolution_ms']:.2f}",
               number(peak, ".0f", MEBI), "yes" if policy == "plain" or line["settled"] else "no"]  # fmt: skip


def name_of(figure):
    return figure.lower().replace(". ", "")
