"""Child processes. Each is in a group of its own, which ends with it and with the driver."""

import contextlib
import ctypes
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading

from harness.results import parsed


class Ended(Exception):
    """A child process failed."""


def end_with_parent():
    """In a child: if the driver is killed, its child ends too, and does not disturb the next driver's measurements."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def last_line(text):
    return ([line for line in text.splitlines() if line.strip()] or ["no message"])[-1]


def failure(status, log):
    """How a process failed whose errors are in a file; None for its status: it was killed because time was up."""
    how = "took too long" if status is None else f"ended with {status}"
    return f"{how}: {last_line(log.read_text(errors='replace'))}"


def python(script, *words, by=sys.executable):
    """The command of a script in Python."""
    return [by, "-B", "-W", "ignore", script, *words]


def begin(command, environment, **pipes):
    """Starts a process."""
    if environment is not None:
        environment = {name: str(value) for name, value in environment.items()}
    return subprocess.Popen([*map(str, command)], env=environment, text=True, start_new_session=True,
                            preexec_fn=end_with_parent, **pipes)  # fmt: skip


def end(process):
    """Kills a process that runs, and its own children, which are in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run(command, limit, environment, out, errors=None):
    """Runs a command for at most `limit` seconds. Returns its exit status; None if time was up.

    Output goes to the file `out`; errors go to the file `errors`, to the driver's (None), or to `out` (subprocess.STDOUT).
    """
    to_file = isinstance(errors, pathlib.Path)
    with open(out, "w") as out, open(errors, "w") if to_file else contextlib.nullcontext(errors) as errors:
        child = begin(command, environment, stdout=out, stderr=errors)
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end(child)


def lines_of(command, environment):
    """The lines of JSON of a command, which must succeed: else Ended says why. Repeats what the library said."""
    found = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment)
    if found.returncode:
        raise Ended(f"it ended with {found.returncode}: {last_line(found.stderr)}\n{found.stderr[-2000:]}")
    for line in dict.fromkeys(line for line in found.stderr.splitlines() if "ucudnn" in line):
        print(line, file=sys.stderr)
    return [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]


class Child:
    """`with Child(…) as child`: a process whose lines of JSON are read while it runs.

    Errors go to the file `log`, or to the driver's. `given` is its standard input; subprocess.PIPE leaves that open.
    """

    def __init__(self, command, environment, log=None, mode="w", given=None):
        self.log, self.why, self.has_failed, self.is_cut = log, None, False, False
        with open(log, mode) if log else contextlib.nullcontext() as errors:
            stdin = None if given is None else subprocess.PIPE
            self.process = begin(command, environment, stdin=stdin, stdout=subprocess.PIPE, stderr=errors)
        if isinstance(given, str):
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(given)
                self.process.stdin.close()
        self.heard = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for text in self.process.stdout:
            self.heard.put(text)
        self.heard.put(None)

    def lines(self, left, silent=float("inf")):
        """The lines, until the process ends, says nothing for `silent` seconds, or left() seconds are over. Then `why`
        says how it ended, and `has_failed` whether it failed; time was over if it `is_cut`."""
        while True:
            limit = min(silent, max(left(), 0))
            try:
                text = self.heard.get(timeout=None if limit == float("inf") else limit)
            except queue.Empty:
                self.is_cut = left() <= 0
                self.has_failed = not self.is_cut
                self.why = "no time left" if self.is_cut else f"took longer than {silent:.0f} s"
                return
            if text is None:
                status = self.process.wait()
                self.has_failed = status != 0
                self.why = failure(status, self.log) if self.log else f"ended with {status}"
                return
            if (line := parsed(text)) is not None:
                yield line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)
        self.reader.join()
        self.process.stdout.close()
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
