"""PyTorch's training steps, plain and with us, in turns.

Runs examples/pytorch/table.py by a Python whose PyTorch sees the GPU. OUT then holds table.txt and table.svg. The same
command goes on where it stopped. Nothing else may run on the GPU: memory is counted for the device as a whole. Options
of table.py (examples/pytorch/table.py --help) come behind --:

    python3 scripts/gpu.py pytorch --seconds 3600 -- --only 'resnet50/*'
"""

import os

from gpu import machine
from harness.cudnn import ROOT


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-pytorch", seconds=600)
    machine.add_arguments(parser, "python", "host")
    parser.add_argument("more", nargs="*", metavar="OPTION", help="behind --: an option of table.py")


def main(options):
    command = [machine.required_torch(options), "-B", "-W", "ignore", ROOT / "examples/pytorch/table.py",
               "--shim", options.library, "--out", options.out, "--seconds", options.seconds,
               "--device", options.device, *options.more]  # fmt: skip
    print(f"gpu: {options.gpu}; {command[0]}", flush=True)
    os.execvp(command[0], [*map(str, command)])
