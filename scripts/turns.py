"""Runs convnet processes in turns. Each is set up once, and waits while another one runs its iterations."""

import contextlib
import json
import pathlib
import subprocess
import threading

from harness.children import Ended, begin

MARK = "turn: "
# The most seconds until a program's next line. It says each choice of its tuning, and ends each iteration long before.
MOST = 600


class Runner:
    """One convnet with --turns. Lines that are not for the driver go to `hear`: warnings and errors."""

    def __init__(self, command, environment, report, hear):
        self.command, self.report, self.hear = [*map(str, command), "--turns"], report, hear
        self.process = begin(self.command, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)  # fmt: skip

    def until(self, last):
        """The program's steps, as it says them, before it says `last`."""
        for line in iter(self.line, ""):
            if not line.startswith(MARK):
                self.hear(line.rstrip("\n"))
                continue
            said = line.removeprefix(MARK).strip()
            if said == last:
                return
            yield said
        self.fail()

    def line(self):
        """The program's next line; nothing at its end. It is killed if it hangs."""
        killer = threading.Timer(MOST, self.process.kill)
        killer.start()
        try:
            return self.process.stdout.readline()
        finally:
            killer.cancel()

    def iterate(self):
        """Runs one iteration."""
        # A program that has ended is found by `until`, with its status.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        for _ in self.until("ran"):
            pass

    def scheduled(self):
        """Nanoseconds that its threads ran, and that they waited for a processor; zeros if Linux counts neither."""
        ran = waited = 0
        for thread in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # the thread ended meanwhile
                fields = thread.read_text().split()
                ran, waited = ran + int(fields[0]), waited + int(fields[1])
        return ran, waited

    def finish(self):
        """Waits for the end, and returns the report. The program must have run all its iterations."""
        rest = self.process.communicate()[0]
        if self.process.returncode:
            self.hear(rest.rstrip("\n"))
            self.fail()
        return json.loads(self.report.read_text())

    def fail(self):
        raise Ended(f"{' '.join(self.command)}\nended with {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()
