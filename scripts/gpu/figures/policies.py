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


def resnet18(session):
    convolutions(session, "Fig. 11", "resnet18", session.sized(128, 2))


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


class Steps:
    """A network's whole iterations, each of a process of its own, by names. Plain has no limit."""

    def __init__(self, session, figure, network, batch):
        self.session, self.title = session, f"μ-cuDNN's {figure}: a whole iteration of {network}"
        self.name = f"{name_of(figure)}-{network}-step"
        self.words = ["--network", network, "--precision", PRECISIONS[session.options.math]]
        self.words += session.sized(["--batch", batch, "--warm-up-seconds", 8],
                                    ["--tiny", "--least", 2, "--most", 4, "--seconds", 0.1])  # fmt: skip
        self.results = session.results(self.name)
        self.named = {f"{self.name}-plain": ("plain", None)}
        self.named |= {f"{self.name}-{policy}-{limit}": (policy, limit) for limit in OF_STEPS for policy in POLICIES}
        self.databases = {policy: session.out / f"{self.name}-{policy}.sqlite" for policy in POLICIES}
        # Those that OUT has are not run again.
        self.missing = {what: run for what, run in self.named.items() if session.wants(what) and not self.results.is_there(what)}

    def runs(self):
        turn = lambda policy: ["--turn", "loaded" if policy == "plain" else "begun"]  # noqa: E731
        return {what: ([*self.words, *turn(run[0])], self.under(what, *run)) for what, run in self.missing.items()}

    def fillers(self):
        """What compiles each policy's kernels, within one limit. They stay beside its database, whose times are thrown away."""
        of = {policy: limit for policy, limit in reversed(self.missing.values()) if policy != "plain" and not self.session.host}
        named = {f"{self.name}-compiled-{policy}": (policy, limit) for policy, limit in of.items()}
        return {what: ([*self.words, "--seconds", 0.1], self.under(what, *run)) for what, run in named.items()}

    def under(self, what, policy, limit):
        """The variables of a step by a policy within a limit."""
        if policy == "plain":
            return {}
        return machine.ours(self.session.options, self.session.out / f"{what}.report.jsonl", UCUDNN_EXPLORE="unbounded",
                            UCUDNN_DATABASE=self.databases[policy], UCUDNN_BATCH_SIZE_POLICY=policy,
                            UCUDNN_WORKSPACE_LIMIT=limit)  # fmt: skip

    def table(self):
        rows = list(step_rows({self.named[what]: line for what, line in self.results.lines.items() if what in self.named}))
        if rows:
            self.session.table(self.title, OF_STEP, [STEPS, *rows], (0, 1, 6))


def steps(session):
    """Whole iterations of two networks."""
    if not session.python:
        return
    networks = [Steps(session, "Fig. 10", "alexnet", 256), Steps(session, "Fig. 11", "resnet18", 128)]
    runs = dict(run for its in networks for run in its.runs().items())
    fillers = dict(run for its in networks for run in its.fillers().items())

    def add(line):
        next(its for its in networks if line["name"] in its.named).results.add(line)

    def begins():
        for its in networks:
            for database in its.databases.values():
                fresh(database)

    session.leave_out("whole iterations", session.in_turns(add, runs, fillers, begins))
    for its in networks:
        its.table()


def step_rows(found):
    """A row for each line, by its policy and limit; plain has none."""
    for (policy, limit), line in found.items():
        peak, undivided = line["torch_peak"], found.get(("undivided", limit))
        yield [limit or "none", policy, f"{line['step_ms']:.2f} ({line['p10_ms']:.2f} to {line['p90_ms']:.2f})",
               f"{undivided['step_ms'] / line['step_ms']:.2f}" if undivided else "–", f"{line['convolution_ms']:.2f}",
               number(peak, ".0f", MEBI), "yes" if policy == "plain" or line["settled"] else "no"]  # fmt: skip


def name_of(figure):
    return figure.lower().replace(". ", "")
