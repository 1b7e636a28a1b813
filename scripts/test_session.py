"""Unit tests of a session's checks (gpu/session.py)."""

import contextlib
import io
import pathlib
import sys
import types
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

from gpu.session import Session
from harness.testing import InFolder


class Succeeds(InFolder):
    def checks(self, seconds, most):
        """What a session of so many seconds notes of a command that never ends."""
        session = Session(types.SimpleNamespace(seconds=seconds, out=self.path), reserve=0)
        log = self.path / "log"
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertFalse(session.succeeds("endless", log, ["sleep", 1000], most, None, log))
        return (self.path / "checks.txt").read_text()

    def test_what_the_sessions_end_cuts_is_skipped(self):
        self.assertIn("skipped  endless: took too long", self.checks(seconds=1, most=500))

    def test_what_takes_longer_than_it_may_is_wrong(self):
        self.assertIn("WRONG    endless: took too long", self.checks(seconds=500, most=1))


if __name__ == "__main__":
    unittest.main()
