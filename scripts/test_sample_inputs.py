"""Unit tests of the comparison of PyTorch's samples, plain and with the library (gpu/sample_inputs.py)."""

import contextlib
import io
import pathlib
import sys
import types
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

from gpu.sample_inputs import Checks
from gpu.session import Session
from harness.testing import InFolder


def line(case, error=1e-7, precision="float", outcome=None, strides=(8, 1), **more):
    """A sample's line with one tensor of many elements."""
    tensor = {"norm": error, "worst": error, "at": "", "elements": 1000, "precision": precision, "depth": 64, "chain": 1,
              "goes_by_plain": True}  # fmt: skip
    form = {"y0": ["torch.float32", [2, 8], list(strides)]}
    return {"case": case, "outcomes": [outcome], "form": form, "tensors": {"y0": tensor}} | more


class Compare(InFolder):
    def noted(self, pairs, host=False, cut=None):
        """What is noted of pairs of lines, plain's and ours, of which there was time for so many."""
        checks = Checks.__new__(Checks)
        Session.__init__(checks, types.SimpleNamespace(seconds=100, out=self.path, host=host, only=""), reserve=0)
        plain, ours = ({its["case"]: its for its in side} for side in zip(*pairs, strict=True))
        with contextlib.redirect_stderr(io.StringIO()), open(self.path / "wrong.txt", "w") as checks.wrong:
            checks.compare("forced", plain, dict(list(ours.items())[:cut]))
        return (self.path / "checks.txt").read_text()

    def test_like_errors_are_right(self):
        noted = self.noted([(line("conv2d float a"), line("conv2d float a", 1.1e-7))])
        self.assertIn("ok       forced: 1 samples right, 0 wrong;", noted)
        self.assertNotIn("WRONG", noted)

    def test_a_larger_error_is_wrong_in_each_type(self):
        for precision, error in (("double", 1e-12), ("float", 1e-4), ("half", 1e-1), ("bfloat16", 1.0), ("float", float("inf"))):
            plain = line("conv2d x a", 0.0, precision)
            noted = self.noted([(plain, line("conv2d x a", error, precision))])
            self.assertIn("WRONG    forced, conv2d x a: y0: norm error", noted, precision)

    def test_errors_that_are_a_little_larger_throughout_are_wrong(self):
        pairs = [(line(f"conv2d float {n}", 2e-7), line(f"conv2d float {n}", 3e-7)) for n in range(9)]
        noted = self.noted(pairs)
        self.assertIn("ok       forced: 9 samples right", noted)
        self.assertIn("WRONG    forced, middle errors over plain's: conv2d float 1.50", noted)

    def test_another_exception_is_wrong_and_the_same_is_right(self):
        refused = line("conv2d float r", outcome="forward: RuntimeError: no")
        self.assertNotIn("WRONG", self.noted([(refused, refused), (line("conv2d float a"), line("conv2d float a"))]))
        self.assertIn("WRONG    forced, conv2d float r: outcome None, plain forward: RuntimeError: no",
                      self.noted([(refused, line("conv2d float r"))]))  # fmt: skip

    def test_a_later_call_that_raises_is_wrong(self):
        ours = line("conv2d float a", outcomes=[None, "backward: RuntimeError: no"])
        for host in (False, True):
            self.assertIn("WRONG", self.noted([(line("conv2d float a"), ours)], host))

    def test_on_a_host_statistics_in_float_may_be_refused(self):
        plain, refused = line("batch_norm half a"), "backward: RuntimeError: expected scalar type Half but found Float"
        ours = line("batch_norm half a", outcome=refused, form={}, tensors={})
        self.assertNotIn("WRONG    forced, batch_norm", self.noted([(plain, ours)], host=True))
        self.assertIn("WRONG    forced, batch_norm", self.noted([(plain, ours)]))
        self.assertIn("WRONG    forced, batch_norm", self.noted([(line("batch_norm half a", outcome="refused"), plain)], host=True))

    def test_what_there_was_no_time_for_is_said(self):
        plain = {name: line(name) for name in ("conv2d float a", "conv2d float b")}
        noted = self.noted([(its, its) for its in plain.values()], cut=1)
        self.assertIn("skipped  forced: 1 of 2 samples: no time left", noted)

    def test_other_strides_and_a_missing_result_are_wrong(self):
        self.assertIn("has the form", self.noted([(line("conv2d float a"), line("conv2d float a", strides=(1, 2)))]))
        self.assertIn("has the form None", self.noted([(line("conv2d float a"), line("conv2d float a", form={}, tensors={}))]))


if __name__ == "__main__":
    unittest.main()
