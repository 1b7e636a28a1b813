"""Checks and measures libucudnn.so on this machine's NVIDIA GPU.

Takes finished files (`make build build/convnet build/rnn_bench`), so that the machine needs no compiler. Without a GPU
a subcommand says so and ends with 2; --host, where there is one, tries it on hostdnn, which computes on the CPU.
"""

import argparse
import functools
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
from gpu import canonical_gru, check, cuda_graph, depthwise, division, dynamic, exploring, first_table, machine, norm, papers, pytorch, reported, rnn, rnn_start, rnn_training, sample_inputs, sweep, truth  # noqa: E402

SUBCOMMANDS = {"check": check, "division": division, "pytorch": pytorch, "cuda-graph": cuda_graph, "rnn": rnn,
               "rnn-start": rnn_start, "exploring": exploring, "canonical-gru": canonical_gru, "dynamic": dynamic, "norm": norm, "depthwise": depthwise, "papers": papers, "first-table": first_table,
               "rnn-training": rnn_training, "reported": reported, "sample-inputs": sample_inputs, "sweep": sweep, "truth": truth}  # fmt: skip


def main():
    as_written = functools.partial(argparse.RawDescriptionHelpFormatter, width=120)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    subcommands = parser.add_subparsers(required=True, metavar="SUBCOMMAND")
    for name, module in SUBCOMMANDS.items():
        brief = module.__doc__.splitlines()[0]
        its = subcommands.add_parser(name, help=brief, description=module.__doc__, formatter_class=as_written)
        module.add_arguments(its)
        its.set_defaults(main=module.main)
    options = parser.parse_args()
    machine.prepare(options)
    return options.main(options)


if __name__ == "__main__":
    sys.exit(main())
