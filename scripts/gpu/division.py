"""Workspace Division against Workspace Reuse, at equal peaks.

Runs scripts/division.py on three networks. OUT then holds a table and a JSON file for each.
"""

import shutil
import sys

from gpu import machine
from gpu.session import Session
from harness.cudnn import HOSTDNN, ROOT

NETWORKS = [("alexnet", 256, "float", "120MiB"), ("resnet18", 64, "half", "256MiB"), ("resnet50", 32, "float", "512MiB")]


def add_arguments(parser):
    machine.add_arguments(parser, "library", "convnet", out="build/gpu-division", seconds=500)
    machine.add_arguments(parser, "cudnn", "host")


def main(options):
    session = Session(options, reserve=60)
    folder = machine.cudnn_folder(options)
    folder = HOSTDNN if folder is None else folder
    session.say(f"{options.gpu}; cuDNN in {folder or 'a folder of the loader'}")
    for network, batch, kind, total in NETWORKS:
        name = f"division-{network}-{kind}"
        if not session.begins(name, f"Workspace Division: {network}, {kind}, {total} in all"):
            continue
        work, table, log = (options.out / f"{name}{end}" for end in ("", ".txt", ".log"))
        command = [sys.executable, "-B", ROOT / "scripts/division.py", "--target", options.library.parent,
                   "--convnet", options.convnet, "--network", network, "--type", kind, "--total", total,
                   "--batch", 2 if options.host else batch, "--iterations", 1 if options.host else 10, "--output", work,
                   *(["--math", "tensor-op"] if kind == "half" else []), *(["--cudnn", folder] if folder else [])]  # fmt: skip
        if session.succeeds(name, log, command, 240, None, table, log):
            (work / f"{network}.json").rename(options.out / f"{name}.json")
            (work / "division.jsonl").rename(options.out / f"{name}.jsonl")
            session.verdict("ok", name, f"{name}.txt")
            print(table.read_text(), end="", flush=True)
        shutil.rmtree(work, ignore_errors=True)
    return session.finish()
