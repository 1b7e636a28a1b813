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
    steps(session, "Fig. 10", "alexnet", 256)


def resnet18(session):
    convolutions(session, "Fig. 11", "resnet18", session.sized(128, 2))
    steps(session, "Fig. 11", "resnet18", 128)


def convolutions(session, figure, network, batch):
    """Plain and the policies in turns, for each limit."""
    runs = Runs(session, f"{name_of(figure)}-{network}", NETWORKS / f"{network}.csv", batch)
    databases = {policy: fresh(session.out / f"{runs.name}-{policy}.sqlite") for policy in POLICIES}
    table, count = [HEADER], 3 * (len(runs.network.read_text().splitlines()) - 1)
    for limit in LIMITS:
        if not session.begins(f"{figure}, {limit}"):
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
    """Whole iterations, each of a process of its own."""
    if not session.python:
        return
    name, table = f"{name_of(figure)}-{network}-step", [STEPS]
    words = ["--network", network, "--precision", PRECISIONS[session.options.math],
             *session.sized(["--batch", batch, "--warm-up-seconds", 8],
                            ["--tiny", "--least", 2, "--most", 4, "--warm-up-seconds", 2, "--seconds", 0.1])]  # fmt: skip
    databases = {policy: fresh(session.out / f"{name}-{policy}.sqlite") for policy in POLICIES}
    left_out = []
    for limit in OF_STEPS:
        found = {}
        for policy in ("plain", *POLICIES):
            what = f"{name}-{policy}-{limit}"
            if session.is_over:
                left_out.append(f"{policy} {limit}")
                continue
            session.say(what)
            variables = {} if policy == "plain" else machine.ours(
                session.options, session.out / f"{what}.report.jsonl", UCUDNN_EXPLORE="unbounded",
                UCUDNN_DATABASE=databases[policy], UCUDNN_BATCH_SIZE_POLICY=policy, UCUDNN_WORKSPACE_LIMIT=limit)  # fmt: skip
            if line := session.torch_line(what, "step", *words, most=90, **variables):
                found[policy] = line
        table += step_rows(limit, found)
    session.leave_out(f"{figure}, whole iterations", left_out)
    if len(table) > 1:
        session.table(f"μ-cuDNN's {figure}: a whole iteration of {network}", OF_STEP, table, (0, 1, 6))


def step_rows(limit, found):
    undivided = found.get("undivided")
    for policy, line in found.items():
        peak = line["torch_peak"]
        yield [limit, policy, f"{line['step_ms']:.2f} ({line['p10_ms']:.2f} to {line['p90_ms']:.2f})",
               f"{undivided['step_ms'] / line['step_ms']:.2f}" if undivided else "–", f"{line['convolution_ms']:.2f}",
               number(peak, ".0f", MEBI), "yes" if policy == "plain" or line["settled"] else "no"]  # fmt: skip


def name_of(figure):
    return figure.lower().replace(". ", "")
