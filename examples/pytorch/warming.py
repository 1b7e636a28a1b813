"""Runs a program's steps until libucudnn.so, if that is there, changes nothing any more."""

import collections
import itertools
import json
import os
import statistics
import time

# Of the medians of two looks in a row.
STEADY = 0.02


class Report:
    """What libucudnn.so writes as it decides; it may go on trying for as long as this grows."""

    def __init__(self, path):
        self.path, self.read = path, 0
        # How often kernels are being explored, each under a limit: a line says that it begins, and one that it has ended.
        self.exploring = collections.Counter()

    def grows(self):
        """Whether whole lines have come since it was last asked."""
        before = self.read
        if self.path and os.path.exists(self.path):
            with open(self.path, "rb") as report:
                report.seek(self.read)
                for line in itertools.takewhile(lambda line: line.endswith(b"\n"), report):
                    self.read += len(line)
                    self.hear(json.loads(line))
        return self.read > before

    def hear(self, line):
        what = (line.get("spec"), line.get("limit"))
        if line["event"] == "exploring":
            self.exploring[what] += 1
        elif line["event"] in ("ran", "unchanged"):
            # What the database knows has an end alone.
            self.exploring -= collections.Counter([what])


def warm_up(step, device, options):
    """Runs steps until nothing changes any more: how many, and whether that was reached."""
    report = Report(os.environ.get("UCUDNN_REPORT"))
    look = min(10, options.least)
    begin, steps, changed, before = time.monotonic(), 0, 0, None
    while True:
        now = statistics.median(device.times(step, look))
        steps += look
        if report.grows():
            changed = steps
        # A kernel that comes once a step is explored in up to two hundred of them, and some in which it waits, before anything
        # is written. One that the program ran other plans of only at first stays unexplored.
        still = 15 * options.least if report.exploring else options.least
        quiet = steps - changed >= max(still, steps / 3)
        quiet = quiet and (not report.path or report.read or steps >= 6 * options.least)
        if quiet and before and abs(now - before) <= STEADY * before:
            return steps, not report.exploring
        if steps >= options.most or time.monotonic() - begin >= options.warm_up_seconds:
            return steps, False
        before = now
