"""README's table and its picture: training steps of six networks in bfloat16, of one GPU and one commit.

Each step is timed plain, in channels_last, in channels_last under torch.compile, and with us, in a process of its own
(examples/pytorch/step.py). All processes begin side by side: they load, torch.compile compiles, and others compile our
kernels. Then each is measured alone, in its turn. With us it explores first, without a bound, as a program's first steps
do: it finds compiled kernels, and no times but those of the networks before it. OUT then holds
  table.txt    the table
  README.md    its rows, as README has them
  table.svg    the picture
  steps.jsonl  what each process measured: the same command goes on
  checks.txt   what was wrong or left out
"""

from gpu import machine
from gpu.figures.papers import Papers
from harness.columns import number
from harness.svg import BLUE, FAINT, GREEN, GREY, INK, box, document, line, text
from harness.variables import fresh

NETWORKS = {"resnet18": "ResNet-18", "resnet50": "ResNet-50", "efficientnet_b0": "EfficientNet-B0", "convnext_t": "ConvNeXt-T",
            "wide_resnet50": "Wide ResNet-50-2", "inception_v3": "Inception-v3"}  # fmt: skip
# What a kind adds to step.py's words.
KINDS = {"plain": [], "channels_last": ["--layout", "channels_last"],
         "compiled": ["--layout", "channels_last", "--modes", "compile"], "with us": []}  # fmt: skip
COLOURS = {"plain": GREY, "channels_last": GREEN, "compiled": INK, "with us": BLUE}
OURS = "with us"
HEADER = ["", *KINDS, "over plain", "settled"]
LEGEND = "Eager; compiled: in channels_last; with us: after its own steps have explored without a bound, with kernels compiled before."
# Where a process waits for its turn, if not where cuDNN is loaded.
TURNS = {"compiled": "stepped", OURS: "begun"}
# The most seconds of a warm-up, and of one that explores.
WARM_UP, WARM_UPS = 4, {OURS: 25}
LEFT, PLOT, ROW, TOP = 150, 480, 15, 66


def add_arguments(parser):
    machine.add_arguments(parser, "library", "command", out="build/gpu-first-table", seconds=400)
    machine.add_arguments(parser, "python", "cudnn", "host")


def main(options):
    options.only = []
    session = Papers(options)
    if session.python:
        measure(session)
    return session.end()


def measure(session):
    results = session.results("steps")
    missing = [(network, kind) for network in NETWORKS for kind in KINDS]
    missing = [run for run in missing if not results.is_there(name_of(*run))]
    database = session.out / "tuning.sqlite"
    runs = {name_of(*run): process(session, name_of(*run), *run, database, "--turn", TURNS.get(run[1], "loaded")) for run in missing}
    # What these explore beside others is thrown away. The kernels that they compile stay.
    filling = {f"filling {name_of(*run)}": run for run in missing if run[1] == OURS and not session.host}
    fillers = {name: process(session, name, *run, database, "--seconds", 0.1) for name, run in filling.items()}
    session.leave_out("steps", session.in_turns(results.add, runs, fillers, lambda: fresh(database)))
    found = {network: {kind: results.lines.get(name_of(network, kind)) for kind in KINDS} for network in NETWORKS}
    table = list(rows(found))
    session.table(f"Training steps in bfloat16, in ms; {session.options.gpu}", LEGEND, [HEADER, *table])
    (session.out / "README.md").write_text("".join(f"| {' | '.join(row[:-1])} |\n" for row in table))
    (session.out / "table.svg").write_text(draw(found, session.options.gpu))


def name_of(network, kind):
    return f"{network}, {kind}"


def process(session, name, network, kind, database, *words):
    """The words and variables of a process that measures steps of a kind."""
    variables = {"TORCHINDUCTOR_CACHE_DIR": session.out / "inductor"}
    if kind == OURS:
        variables |= machine.ours(session.options, session.file(name, "report.jsonl"), UCUDNN_DATABASE=database,
                                  UCUDNN_EXPLORE="unbounded")  # fmt: skip
    size = session.sized(["--precision", "bfloat16", "--warm-up-seconds", WARM_UPS.get(kind, WARM_UP)],
                         ["--precision", "float", "--tiny", "--least", 2, "--most", 4, "--seconds", 0.1])  # fmt: skip
    return ["--network", network, "--times-alone", *KINDS[kind], *size, *words], variables


def rows(found):
    for network, its in found.items():
        plain, ours = (its[kind] and its[kind]["step_ms"] for kind in ("plain", OURS))
        steps = (number(line and line["step_ms"], ".1f") for line in its.values())
        settled = "" if not its[OURS] else "yes" if its[OURS]["settled"] else "no"
        yield [NETWORKS[network], *steps, number(plain and ours and ours / plain, ".2f"), settled]


def draw(found, gpu):
    """Each network's steps as bars, in plain's time."""
    at = lambda ratio: LEFT + PLOT * min(ratio, 1.2) / 1.2  # noqa: E731
    parts, y = [], TOP
    for network, its in found.items():
        plain = its["plain"] and its["plain"]["step_ms"]
        y += 10
        parts.append(text(LEFT - 8, y + 2.5 * ROW, NETWORKS[network], 12, anchor="end", weight="bold"))
        for kind, line_ in its.items():
            y += ROW
            if plain and line_:
                ratio = line_["step_ms"] / plain
                parts += [box(LEFT, y - 11, at(ratio) - LEFT, 11, COLOURS[kind], fill_opacity=0.8),
                          text(at(ratio) + 6, y - 2, f"{kind}: {line_['step_ms']:.1f} ms", 10, FAINT)]  # fmt: skip
    head = [text(16, 26, "PyTorch's training step in bfloat16, over plain's", 15, weight="bold"),
            text(16, 46, f"{gpu}. Shorter is faster; compiled: channels_last under torch.compile.", 12, FAINT)]  # fmt: skip
    return document(LEFT + PLOT + 110, y + 20, [*head, line(at(1), TOP, at(1), y + 6), *parts])
