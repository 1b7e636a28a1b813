"""Runs a program's steps until libucudnn.so, if it is loaded, has stopped changing them."""

import collections
import os
import statistics
import time

from harness.results import Tail

# How far the medians of two looks in a row may differ, as a fraction.
STEADY = 0.02


class Report(Tail):
    """libucudnn.so's report of its decisions; while it grows, the library may go on trying."""

    def __init__(self):
        super().__init__(os.environ.get("UCUDNN_REPORT"))
        # How often problems are being explored, each under a limit: one line reports the begin, and one the end.
        self.exploring = collections.Counter()

    def grows(self):
        """Whether the report has got whole lines since the last call."""
        news = self.news()
        for line in news:
            self.hear(line)
        return bool(news)

    def hear(self, line):
        what = (line.get("spec"), line.get("limit"))
        if line["event"] == "exploring":
            self.exploring[what] += 1
        elif line["event"] in ("ran", "unchanged"):
            # Problems that the database knows report an end only.
            self.exploring -= collections.Counter([what])


def warm_up(step, device, options):
    """Runs steps until nothing changes any more; returns their number, and whether that state was reached."""
    report = Report()
    look = min(10, options.least)
    begin, steps, changed, before = time.monotonic(), 0, 0, None
    while True:
        now = statistics.median(device.times(step, look))
        steps += look
        if report.grows():
            changed = steps
        # Exploring a problem that runs once a step takes up to two hundred steps, and some steps of waiting, before its
        # first line. A problem whose other plans the program ran only at first stays unexplored.
        still = 15 * options.least if report.exploring else options.least
        quiet = steps - changed >= max(still, steps / 3)
        quiet = quiet and (not report.path or report.read or steps >= 6 * options.least)
        if quiet and before and abs(now - before) <= STEADY * before:
            return steps, not report.exploring
        if steps >= options.most or time.monotonic() - begin >= options.warm_up_seconds:
            return steps, False
        before = now
