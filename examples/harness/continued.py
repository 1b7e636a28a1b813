"""Tables that take long: a command measures what is missing until time is up, and the same command goes on."""

import signal
import sys

from harness.budget import Budget


class Continued:
    """The measurements of a table. `name` is the program's, `what` a measurement in the plural; run_all() measures what
    is missing."""

    name = what = ""

    def __init__(self, options, results):
        self.options, self.results, self.budget = options, results, Budget(options.seconds)

    def say(self, words):
        print(f"{self.name}: {words}", file=sys.stderr, flush=True)

    def left(self):
        return self.budget.left

    def say_begin(self, there, to_go):
        limit = "" if self.budget.seconds is None else f"; at most {self.budget.seconds:.0f} s"
        self.say(f"{there} {self.what} are there, {to_go} to go{limit}")

    def say_end(self, to_go):
        if to_go:
            self.say(f"no time left; {to_go} {self.what} are to be made: the same command goes on")

    def run_until_stopped(self):
        # As for Ctrl-C: the process that is measuring must end, too.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
        try:
            self.run_all()
        except KeyboardInterrupt:
            self.say("stopped; the same command goes on")

    def one_by_one(self, child, waiting, add, fail, silent=float("inf")):
        """Measures in a process one after the other. Returns those behind the one that ended the process, or all that
        are left if time is up.

        add(which, line) takes the line of one, and returns why it is wrong if it is. fail(which, why) notes a failure.
        """
        with child:
            why = None
            for line in child.lines(self.left, silent):
                if why := add(waiting[0], line):
                    break
                waiting = waiting[1:]
        if not waiting or child.is_cut:
            return waiting
        fail(waiting[0], why or child.why)
        return waiting[1:]


def print_list(names):
    """Prints names, for a reader that may end early."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(*names, sep="\n")
