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
    session.folder = HOSTDNN if folder is None else folder
    session.say(f"{options.gpu}; cuDNN in {session.folder or 'a folder of the loader'}")
    for network in NETWORKS:
        name = f"division-{network[0]}-{network[2]}"
        if not session.begins(name, f"Workspace Division: {', '.join(map(str, network))} in all"):
            continue
        math = "tensor-op" if network[2] == "half" else "default"
        if (table := divide(session, name, network, math)) is not None:
            session.verdict("ok", name, f"{name}.txt")
            print(table, end="", flush=True)
    return session.finish()


def divide(session, name, network, math):
    """Runs scripts/division.py on a network, with its batch, type and total. OUT then has NAME.txt, NAME.json and
    NAME.jsonl, the report of the division. Returns the table; None if it failed, which is noted."""
    options, (network, batch, kind, total) = session.options, network
    work, table, log = (session.out / f"{name}{end}" for end in ("", ".txt", ".log"))
    command = [sys.executable, "-B", ROOT / "scripts/division.py", "--target", options.library.parent,
               "--convnet", options.convnet, "--network", network, "--type", kind, "--total", total, "--math", math,
               "--batch", 2 if options.host else batch, "--iterations", 1 if options.host else 10, "--output", work,
               *(["--cudnn", session.folder] if session.folder else [])]  # fmt: skip
    is_right = session.succeeds(name, log, command, 240, None, table, log)
    if is_right:
        (work / f"{network}.json").rename(session.out / f"{name}.json")
        (work / "division.jsonl").rename(session.out / f"{name}.jsonl")
    shutil.rmtree(work, ignore_errors=True)
    return table.read_text() if is_right else None
