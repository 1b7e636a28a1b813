"""Processes that begin at once and measure in turns: each waits for the name of a case, and answers with a line of JSON.

So they load what they need side by side, and one of them measures at a time.
"""

import contextlib
import json
import subprocess
import sys

from harness.children import Child, Ended
from harness.rounds import in_turn

# The most seconds of an answer: a process that hangs ends with a reason, whatever time is left.
MOST = 120


class Cut(Exception):
    """Time was up while a process measured."""


def asked():
    """In a process: says that it is ready. Then the names of cases, as they come."""
    tell({"ready": True})
    yield from map(str.strip, sys.stdin)


def tell(line):
    print(json.dumps(line), flush=True)


def answers(kinds, names, left):
    """The answers of all processes of each kind about each name: pairs of a name, and lists by kind.

    `kinds` has the processes of each kind, as many of each: commands and variables. left() says how many seconds are left:
    without any, no further case comes. A process that fails, or does not answer for MOST seconds, raises Ended.
    """
    with contextlib.ExitStack() as stack, contextlib.suppress(Cut):
        running = {kind: [stack.enter_context(Child(command, its, given=subprocess.PIPE)) for command, its in processes]
                   for kind, processes in kinds.items()}  # fmt: skip
        for process in (process for processes in running.values() for process in processes):
            answer(process, left)
        for name in names:
            found = {kind: [] for kind in running}
            for number, processes in enumerate(zip(*running.values(), strict=True)):
                for kind, process in in_turn(tuple(zip(running, processes, strict=True)), number):
                    found[kind].append(ask(process, name, left))
            yield name, found


def ask(process, name, left):
    # A process that has ended is found by its answer, which is missing.
    with contextlib.suppress(BrokenPipeError):
        process.process.stdin.write(f"{name}\n")
        process.process.stdin.flush()
    return answer(process, left)


def answer(process, left):
    for line in process.lines(left, silent=MOST):
        return line
    raise Cut if process.is_cut else Ended(process.why)
