"""Checks of gpu/rnn_training.py that need no GPU: `python -m unittest` in this folder."""

import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
from gpu import rnn_training


class OnHost(unittest.TestCase):
    def test_the_calls_and_their_sum_are_medians_of_processes(self):
        answer = lambda *times: dict(zip(("sizes", "forward", "data", "weights"), times))  # noqa: E731
        plain = [answer([1.0, 2.0], [time, time + 1], [5.0, 6.0], [7.0, 8.0]) for time in (9.0, 3.0, 4.0)]
        ours = [answer([0.5, 1.5], [2.0, 2.0], [1.0, 1.0], [2.5, 3.0])]
        heading, *rows = rnn_training.on_host({"half/H128 B8": {"plain": plain, "ours": ours}})
        self.assertEqual([len(row) for row in rows], [len(heading)] * 5)
        self.assertEqual(rows[1], ["lstm/half/H128 B8, forward", "4.0", "2.0", "-2.0", "5.0", "2.0"])
        self.assertEqual(rows[-1], ["lstm/half/H128 B8, three calls", "16.0", "5.5", "-10.5", "19.0", "6.0"])


class Times(unittest.TestCase):
    def line(self, visits):
        side = lambda time: {"times": {"eager": time}, "usual": {"eager": 2 * time}, "visits": visits, "chosen": ["a", "b"]}  # noqa: E731
        return {"case": "lstm/half/H1 B1", "plain": side(3.0), "ours": side(2.0) | {"usual": {"eager": 3.0}}}

    def test_a_row_says_how_often_a_layer_was_visited(self):
        times = ["–"] * 3 + ["3.000", "2.000", "1.50"]
        self.assertEqual(rnn_training.row(self.line(6)), ["lstm/half/H1 B1", *times, "6", "2.00", "a, b"])
        self.assertEqual(rnn_training.row(self.line(1)), ["lstm/half/H1 B1", *times, "1", "–", "a, b"])


if __name__ == "__main__":
    unittest.main()
