"""A limited time."""

import time


class Budget:
    """So many seconds from now on; as long as it takes for None."""

    def __init__(self, seconds=None):
        self.seconds, self.begin = seconds, time.monotonic()

    @property
    def took(self):
        return time.monotonic() - self.begin

    @property
    def left(self):
        return float("inf") if self.seconds is None else self.seconds - self.took

    @property
    def is_over(self):
        return self.left <= 0

    def limit(self, most):
        """The seconds that something may take which takes `most` at the most."""
        return max(min(most, self.left), 1)
