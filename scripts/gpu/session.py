"""Several checks in a limited time, with a line for each."""

import sys
import time

from harness import children


class Session:
    """The folder, the time and the checks of a subcommand. Nothing new begins in the last `reserve` seconds."""

    def __init__(self, options, reserve):
        self.out, self.seconds, self.reserve = options.out, options.seconds, reserve
        self.begin = time.monotonic()
        self.checks = self.out / "checks.txt"
        self.checks.write_text("")

    def left(self):
        return self.begin + self.seconds - time.monotonic()

    @property
    def is_over(self):
        return self.left() <= self.reserve

    def say(self, words):
        print(f"gpu: {words} (at {time.monotonic() - self.begin:.0f} s)", file=sys.stderr, flush=True)

    def verdict(self, verdict, what, seen):
        """Notes a check: `ok`, `WRONG` or `skipped`, what was checked, what was seen."""
        line = f"{verdict:8} {what}: {seen}"
        print(line, file=sys.stderr, flush=True)
        with open(self.checks, "a") as checks:
            checks.write(line + "\n")

    def end(self, *files):
        """Prints those of these files that are there, and the checks. Returns the exit status."""
        for file in (*files, self.checks.name):
            if (self.out / file).exists():
                print((self.out / file).read_text())
        self.say(f"everything is in {self.out}")
        return 1 if self.is_wrong else 0

    @property
    def is_wrong(self):
        return any(line.startswith("WRONG") for line in self.checks.read_text().splitlines())

    def limit(self, most):
        """The seconds that a run may take."""
        return max(min(most, self.left()), 1)

    def run(self, command, most, environment, out, errors=None):
        """As `children.run`, for at most `most` seconds and what is left."""
        return children.run(command, self.limit(most), environment, out, errors)


def ended(status, log):
    """How a run failed."""
    how = "took too long" if status is None else f"ended with {status}"
    return f"{how}: {children.last_line(log.read_text(errors='replace'))}"
