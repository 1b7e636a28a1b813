"""Tests of harness that need no PyTorch: `python -m unittest` in this folder."""

import json
import sys
import time
import unittest

import table  # noqa: F401 (first: it puts harness on the path)

from harness.budget import Budget
from harness.children import Child
from harness.results import Tail
from harness.testing import InFolder


class Children(InFolder):
    def heard(self, program, seconds=None, silent=float("inf")):
        """A child after its end, and its lines."""
        budget = Budget(seconds)
        with Child([sys.executable, "-c", program], None, self.path / "log") as child:
            return child, list(child.lines(lambda: budget.left, silent))

    def test_lines_that_are_no_objects_are_left_out(self):
        child, lines = self.heard("print('noise'); print('{\"a\": 1}'); print('{\"a\": ')")
        self.assertEqual((lines, child.has_failed, child.is_cut), ([{"a": 1}], False, False))

    def test_a_failure_has_the_status_and_the_last_words(self):
        child, lines = self.heard("import sys; print('{}'); sys.exit('no luck')")
        self.assertEqual((lines, child.has_failed, child.why), ([{}], True, "ended with 1: no luck"))

    def test_a_silent_child_has_failed_and_one_without_time_is_cut(self):
        waits = "import time; print('{}', flush=True); time.sleep(1000)"
        begin = time.monotonic()
        child, lines = self.heard(waits, silent=2)
        self.assertEqual((lines, child.has_failed, child.is_cut), ([{}], True, False))
        self.assertEqual(child.why, "took longer than 2 s")
        child, lines = self.heard(waits, seconds=2)
        self.assertEqual((lines, child.has_failed, child.is_cut), ([{}], False, True))
        self.assertLess(time.monotonic() - begin, 1000)

    def test_its_own_children_end_with_it(self):
        sleeps = "import json, subprocess; print(json.dumps({'pid': subprocess.Popen(['sleep', '60']).pid}))"
        _, [line] = self.heard(sleeps, seconds=2)
        # Somebody may have to reap it.
        ends = time.monotonic() + 10
        while self.runs(line["pid"]) and time.monotonic() < ends:
            time.sleep(0.05)
        self.assertFalse(self.runs(line["pid"]))

    @staticmethod
    def runs(pid):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False


class Tails(InFolder):
    def test_whole_lines_come_once(self):
        file = self.path / "report.jsonl"
        tail = Tail(str(file))
        self.assertEqual(tail.news(), [])
        first, second = json.dumps({"event": "ran"}) + "\n", json.dumps({"event": "timed"}) + "\n"
        file.write_text(first + second[:5])
        self.assertEqual(tail.news(), [{"event": "ran"}])
        with open(file, "a") as more:
            more.write(second[5:])
        self.assertEqual((tail.news(), tail.news()), ([{"event": "timed"}], []))


if __name__ == "__main__":
    unittest.main()
