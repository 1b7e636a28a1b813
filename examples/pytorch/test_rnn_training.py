"""Checks of rnn_training.py that need no GPU and no PyTorch: `python -m unittest` in this folder."""

import unittest

import rnn
import rnn_training


def compared(**found):
    """The words and the verdict on a case of plain and ours: each keyword has both values."""
    plain, ours = ({name: pair[number] for name, pair in found.items()} for number in range(2))
    return rnn_training.compare(plain | {"precision": "half"}, ours)


class RnnTraining(unittest.TestCase):
    def test_every_case_comes_once(self):
        cases = rnn_training.cases() + rnn_training.dropout_cases()
        self.assertEqual(len(cases), len({case.name for case in cases}))
        self.assertEqual({case.cell for case in cases}, set(rnn.CELLS))
        self.assertEqual({case.layout for case in cases}, set(rnn.LAYOUTS))
        self.assertEqual({case.precision for case in cases if case.cell == "relu"}, {"float"})

    def test_an_error_may_be_half_again_as_large_or_some_units_larger(self):
        case = ("small/lstm", "small/lstm")
        for ours, is_right in ((1.4e-2, True), (1.6e-2, False)):
            self.assertEqual(compared(case=case, error=(1e-2, ours))[1], is_right, ours)
        for ours, is_right in ((7 * 2**-11, True), (1e-2, False)):
            self.assertEqual(compared(case=case, error=(0.0, ours))[1], is_right, ours)
        self.assertFalse(compared(case=case, error=(1e-2, float("nan")))[1])
        self.assertIn("1.40", compared(case=case, error=(1e-2, 1.4e-2))[0])

    def test_losses_are_plain_s(self):
        for name, off, is_right in (("small/lstm/float/x", 2e-3, False), ("small/lstm/float/x", 5e-4, True),
                                    ("small/lstm/half/x", 2e-2, True), ("small/lstm/half/x", 5e-2, False)):  # fmt: skip
            losses = ([1.0, 0.5], [1.0, 0.5 * (1 + off)])
            self.assertEqual(compared(case=(name, name), losses=losses)[1], is_right, (name, off))

    def test_forms_differ_as_plain_does(self):
        for name, ours, is_right in (("captured", 0.0, True), ("captured", 1e-3, False), ("autocast", 5e-3, True)):
            self.assertEqual(compared(case=(name, name), difference=(1e-6, ours))[1], is_right, name)

    def test_times_are_shown_with_their_ratios(self):
        words, is_right = compared(case=("x", "x"), times=([1.0, 2.0, 3.0], [0.5, 1.0, 6.0]))
        self.assertTrue(is_right)
        self.assertIn("forward 1.000 0.500 0.50; forward and backward 2.000 1.000 0.50; eager 3.000 6.000 2.00", words)


if __name__ == "__main__":
    unittest.main()
