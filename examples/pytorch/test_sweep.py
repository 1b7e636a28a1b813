"""Tests that need PyTorch and no GPU: `python -m unittest` in this folder."""

import argparse
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("there is no PyTorch") from error

import sweep
from single import CONVOLUTIONS
from warming import Report

SMALL = {"x": [2, 8, 5, 6, 7], "outputs": 12, "filter": [1, 3, 2], "stride": [1, 2, 1], "padding": [0, 2, 1], "dilation": 2,
         "groups": 4, "kind": "float"}  # fmt: skip


class Draws(unittest.TestCase):
    def test_each_convolution_exists_and_is_drawn_again(self):
        of_axes = {1: 0, 2: 0, 3: 0}
        for number in range(300):
            its = sweep.drawn(7, number)
            self.assertEqual(its, sweep.drawn(7, number))
            axes = len(its["filter"])
            of_axes[axes] += 1
            x = torch.empty(its["x"], device="meta")
            w = torch.empty(its["outputs"], its["x"][1] // its["groups"], *its["filter"], device="meta")
            y = CONVOLUTIONS[axes](x, w, None, its["stride"], its["padding"], its["dilation"], its["groups"])
            self.assertGreater(y.numel(), 0, sweep.name(its))
            self.assertLessEqual(max(x.numel(), w.numel(), y.numel()), sweep.MOST_ELEMENTS, sweep.name(its))
        self.assertGreater(min(of_axes.values()), 20)


class Lines(unittest.TestCase):
    def test_a_convolution_has_a_line_for_each_direction(self):
        options = argparse.Namespace(device="cpu", calls=3, seconds=10.0, timed=2)
        lines = list(sweep.measured(SMALL, options, Report()))
        self.assertEqual([line["way"] for line in lines], ["F", "BD", "BF"])
        # y is 2 x 12 x 5 x 3 x 7, and a group has two of the eight channels.
        elements = 2 * 8 * 5 * 6 * 7 + 12 * 2 * 6 + 2 * 12 * 5 * 3 * 7
        for line in lines:
            self.assertEqual(line["convolution"], "2x8x5x6x7 * 12x1x3x2 /1x2x1 p0x2x1 d2 g4 float")
            self.assertEqual(line["bytes"], 4 * elements)
            self.assertEqual(line["operations"], 2 * (2 * 5 * 3 * 7) * 12 * 2 * 6)
            self.assertEqual(line["calls"], 3)
            self.assertTrue(0 < line["first"] <= line["longest"] < line["sum"])
            self.assertTrue(0 < line["usual"] <= line["longest"] and line["ms"] > 0)

    def test_of_the_calls_waited_for_a_line_says_the_first_the_longest_the_median_and_the_sum(self):
        expected = {"first": 2.0, "longest": 9.0, "usual": 2.5, "sum": 14.5}
        self.assertEqual(sweep.of_waited([2.0, 9.0, 0.5, 3.0]), expected)


if __name__ == "__main__":
    unittest.main()
