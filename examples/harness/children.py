"""Child processes."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess


def end_with_parent():
    """In a child: if the driver is killed, its child ends too, and does not disturb the next driver's measurements."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def last_line(text):
    return ([line for line in text.splitlines() if line.strip()] or ["no message"])[-1]


def run(command, limit, environment, out, errors=None):
    """Runs a command for at most `limit` seconds. Returns its exit status; None if time was up.

    Output goes to the file `out`; errors go to the file `errors`, to the driver's (None), or to `out` (subprocess.STDOUT).
    """
    to_file = isinstance(errors, pathlib.Path)
    with open(out, "w") as out, open(errors, "w") if to_file else contextlib.nullcontext(errors) as errors:
        child = subprocess.Popen([*map(str, command)], env=environment, stdout=out, stderr=errors,
                                 start_new_session=True, preexec_fn=end_with_parent)  # fmt: skip
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # The command's own children are in its group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
