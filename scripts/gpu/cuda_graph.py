"""CUDA graphs with cuDNN's plans in them, against double precision.

With no limit, with 8 MiB a kernel, and with 0:

1. cudnnBackendPopulateCudaGraph and cudnnBackendUpdateCudaGraph for each plan that heuristics offer: a graph is
   populated, launched, updated to other memory and launched again. A plan whose engine has the note that it can be put
   into graphs must be, under a limit if anything that can is within it; others may be refused, and then execute.
2. PyTorch's training steps captured into a graph: after enough steps that plans have settled, and at once. Each replay
   works on new data.
"""

import subprocess

from gpu import machine

LIMITS = ("", "8MiB", "0")


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-cuda-graph")
    machine.add_arguments(parser, "python")
    parser.add_argument("--plain", action="store_true", help="without the library")


def main(options):
    python, right = machine.required_torch(options), True
    for limit in LIMITS:
        ours = machine.ours(options, options.out / f"{limit or 'unset'}.jsonl", UCUDNN_WORKSPACE_LIMIT=limit)
        command = machine.program("cuda_graph", limit, python=python)
        environment = machine.torch_environment(**({} if options.plain else ours))
        right &= subprocess.run(command, env=environment).returncode == 0
    print("all right" if right else "WRONG")
    return 0 if right else 1
