"""A program with concurrent branches: Inception-v3, each branch on a stream of its own, under Workspace Division.

Streams that run at once cannot share a workspace, so workspaces add up, as a total counts them. Gradients are held against
float64: ours may be as far from it as scripts/gpu/sampler/verdict.py lets errors be above plain's.
"""

import statistics

from gpu import machine
from gpu.sampler.verdict import FACTOR, ratio
from harness.columns import MEBI, number, spread
from harness.results import events
from harness.rounds import in_turn
from harness.variables import fresh

NETWORK, BATCH, PRECISION, TOTAL = "inception_v3", 32, "half", "1GiB"
ROUNDS = 3
DIVISION = {"UCUDNN_TOTAL_WORKSPACE_SIZE": TOTAL}
# Whether branches have streams, and the variables of the library; None for plain.
KINDS = {
    "plain, streams": (True, None),
    "Division, streams": (True, DIVISION),
    "plain, one stream": (False, None),
    "Reuse of 64 MiB, streams": (True, {"UCUDNN_WORKSPACE_LIMIT": "64MiB"}),
    "Division, one stream": (False, DIVISION),
}
HEADER = ["", "runs", "step ms (least to most)", "of plain, streams", "convolutions ms", "device MiB", "arena MiB",
          "gradients"]  # fmt: skip
LEGEND = f"""\
Milliseconds of a training step and of its convolutions' kernels; the most memory of the device in use, and the
library's part of it; gradients: the worst error against float64, in times plain's with its share of rounding: at most
{FACTOR:.0f}."""


def run(session):
    if not session.python:
        return
    precision = session.sized(PRECISION, "float")
    words = ["--network", NETWORK, *session.sized(["--batch", BATCH], ["--tiny"])]
    exact, found = session.out / "streams.pt", {kind: [] for kind in KINDS}
    if not session.begins("streams, gradients in float64", "streams: gradients in float64"):
        return
    if session.torch_line("streams-exact", "step", *words, "--reference", exact, "--write-reference", most=90) is None:
        return
    words += ["--precision", precision, "--reference", exact, "--warm-up-seconds", session.sized(15, 2),
              *session.sized([], ["--least", 2, "--most", 4, "--seconds", 0.1])]  # fmt: skip
    databases = {kind: fresh(session.out / f"{file_of(kind)}.sqlite") for kind in KINDS}
    left_out = []
    for turn in range(session.sized(ROUNDS, 1)):
        for kind in in_turn(tuple(KINDS), turn):
            what = f"{kind}, round {turn + 1}"
            if session.is_over:
                left_out.append(what)
                continue
            session.say(what)
            if line := one(session, kind, words, databases[kind]):
                found[kind].append(line)
    session.leave_out("streams", left_out)
    title = f"Inception-v3, batch {session.sized(BATCH, 2)}, {precision}: {TOTAL} in all"
    session.table(title, LEGEND, rows(found, precision))
    plain = found["plain, streams"]
    for kind, (_, variables) in KINDS.items():
        if variables and found[kind] and plain:
            worst, name = worst_of(found[kind][0], plain[0], precision)
            session.judge(worst <= FACTOR, f"gradients, {kind}", f"{worst:.2f} of plain's, {name}")
        if variables is DIVISION and found[kind] and not session.host:
            # Without a division the comparison says nothing of one.
            arena = found[kind][-1]["arena"]
            session.judge(arena, f"{kind}: divided", f"{number(arena, '.2f', MEBI)} MiB")


def file_of(kind):
    return f"streams-{kind.replace(', ', '-').replace(' ', '-')}"


def one(session, kind, words, database):
    """A process's line, with the bytes of the arena if a total was divided."""
    has_streams, variables = KINDS[kind]
    report = session.out / f"{file_of(kind)}.report.jsonl"
    if variables is not None:
        own = {"UCUDNN_DATABASE": database, "UCUDNN_EXPLORE": "unbounded"} | variables
        variables = machine.ours(session.options, report, **own)
    more = ["--streams"] if has_streams else []
    line = session.torch_line(file_of(kind), "step", *words, *more, most=120, **(variables or {}))
    divided = events(report, "divided") if variables else []
    return line and line | {"arena": divided[-1]["arena"] if divided else None}


def rows(found, precision):
    yield HEADER
    plain = found["plain, streams"]
    for kind, lines in found.items():
        if not lines:
            yield [kind, "0", *["–"] * (len(HEADER) - 2)]
            continue
        middle = lambda name, lines=lines: statistics.median(line[name] for line in lines)  # noqa: E731
        steps = [line["step_ms"] for line in lines]
        peak, arena = lines[-1]["device_peak"], lines[-1]["arena"]
        over = f"{middle('step_ms') / statistics.median(line['step_ms'] for line in plain):.2f}" if plain else "–"
        worst = f"{worst_of(lines[0], plain[0], precision)[0]:.2f}" if plain and KINDS[kind][1] else "–"
        yield [kind, str(len(lines)), spread(middle("step_ms"), min(steps), max(steps), ".2f"), over,
               f"{middle('convolution_ms'):.2f}", number(peak, ".0f", MEBI), number(arena, ".2f", MEBI), worst]  # fmt: skip


def worst_of(line, plain, precision):
    """The worst ratio of our error to plain's over all parameters, and the parameter."""
    pairs = [(kind, name, error) for kind, its in line["errors"].items() for name, error in its.items()]
    return max((one_of(error, plain["errors"][kind][name], precision), name) for kind, name, error in pairs)


def one_of(error, plain, precision):
    """An error that is not finite counts as infinite."""
    traits = {"precision": precision, "elements": 1000, "depth": 1, "chain": 1, "goes_by_plain": True}
    number = lambda error: float("inf") if error is None else error  # noqa: E731
    return ratio("norm", traits | {"norm": number(error)}, {"norm": number(plain)})
