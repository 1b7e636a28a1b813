"""Unit tests of how a case's calls are measured: `python -m unittest` in this folder, by a Python with
PyTorch that finds harness (PYTHONPATH=../../../examples).
"""

import types
import unittest

import torch
import truth
from subjects import Sized

CASE = {"number": 1, "calls": 4}
FAMILY = types.SimpleNamespace(rival=None)


class Doubling(Sized):
    """Twice the data. `fault(found, data, call)` may change what a call returns."""

    def __init__(self, fault=lambda found, data, call: found):
        self.data = [torch.randn(100, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
        self.live, self.fault, self.call = self.data[0].clone(), fault, 0

    def renew(self, which):
        self.live.copy_(self.data[which])

    def run(self):
        found = self.fault(2 * self.live, self.data, self.call)
        self.call += 1
        return {"y": found}

    def exact(self, which):
        return {"y": 2 * self.data[which].double()}

    def traits(self, name):
        return {"precision": "float", "depth": 1, "chain": 1, "goes_by_plain": True}


def measured(subject):
    calls = truth.Calls(FAMILY, CASE, subject, truth.Device("cpu"))
    calls.make(few=False)
    return calls.line(few=False)


class Calls(unittest.TestCase):
    def test_right_calls_have_no_error_and_equal_bits(self):
        line = measured(Doubling())
        self.assertEqual((line["tensors"]["y"]["norm"], line["different"], line["wrong"]), (0.0, [], []))

    def test_a_value_that_the_call_before_has_left_is_seen(self):
        def stale(found, data, call):
            # The calls are on the sets 0, 1, 0, 1, 0, 0: one element of the third is the second's.
            return torch.where(torch.arange(100) == 7, 2 * data[1], found) if call == 2 else found

        found = measured(Doubling(stale))
        self.assertGreater(found["tensors"]["y"]["worst"], 1e-3)
        self.assertEqual((found["tensors"]["y"]["at"], found["different"]), ("call 2", ["call 2"]))

    def test_memory_that_is_not_written_is_not_a_number(self):
        kept = []

        def unwritten(found, data, call):
            """All calls return the same memory, of which the last one does not write an element."""
            kept.append(found.clone() if not kept else kept[0])
            if call == 5:
                found[3] = kept[0][3]
            return kept[0].copy_(found)

        self.assertEqual(measured(Doubling(unwritten))["tensors"]["y"]["norm"], float("inf"))

    def test_other_bits_are_seen_where_no_error_is(self):
        nudge = lambda found, data, call: found * (1 + 1e-7) if call == 5 else found  # noqa: E731
        line = measured(Doubling(nudge))
        self.assertEqual(line["different"], ["the call beside another kernel"])
        self.assertLess(line["tensors"]["y"]["norm"], 2e-7)


if __name__ == "__main__":
    unittest.main()
