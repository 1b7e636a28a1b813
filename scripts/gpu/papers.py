"""The papers' own figures, on this GPU: μ-cuDNN's 1, 8 to 13, and GRNN's Table 1.

docs/papers.md says what each shows, and what of the papers' setting there is no more. The most important parts come first;
each gets a share of the time, and what it leaves goes to the next. What there was no time for is said. --only takes some
of what the parts measure, by the names that the command says, such as 'fig11-resnet18-64MiB', 'fig10*-64MiB',
'fig13-resnet50*' or 'gru/*/20'. Whole iterations and GRNN's networks that OUT has are not run again. OUT then holds
  tables.txt      the tables
  checks.txt      what was wrong or left out
  *.svg           the pictures, by `ucudnn plot` and examples/rnn_bench
  *.json, *.jsonl, *.report.jsonl   what each process measured, and what the library chose
"""

from gpu import machine
from gpu.figures import desirable, divided, policies, recurrent, streams, undercut
from gpu.figures.papers import Papers

# What makes each part, and its share of the time.
PARTS = {
    "fig9": (policies.alexnet, 20),
    "steps": (policies.steps, 20),
    "fig12": (divided.planned, 4),
    "fig13": (divided.measured, 16),
    "fig1": (undercut.run, 8),
    "fig8": (desirable.run, 8),
    "streams": (streams.run, 20),
    "grnn": (recurrent.table, 12),
    "search": (recurrent.search, 6),
    "fig11": (policies.resnet18, 8),
}


def add_arguments(parser):
    machine.add_arguments(parser, "library", "convnet", "bench", "command", out="build/gpu-papers", seconds=520)
    machine.add_arguments(parser, "python", "cudnn", "host")
    machine.add_parts(parser, list(PARTS))
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="measurements whose name is like this; may be given several times [all]")  # fmt: skip
    parser.add_argument("--math", default="default", choices=list(policies.PRECISIONS),
                        help="of convolutions in float: default allows TF32, fma does not [default]")  # fmt: skip


def main(options):
    session = Papers(options)
    for place, part in enumerate(options.parts):
        make, share = PARTS[part]
        later = sum(PARTS[name][1] for name in options.parts[place + 1 :])
        session.leave(later / (share + later))
        session.say(f"{part}: {session.time:.0f} s")
        make(session)
    return session.end()
