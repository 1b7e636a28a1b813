"""Checks of rnn.py that need no GPU and no PyTorch: `python -m unittest` in this folder."""

import contextlib
import io
import math
import unittest
from dataclasses import astuple

import rnn  # first: it puts harness on the path

from harness.testing import InFolder, refused


def line(case, kind, **found):
    measured = {"eager_ms": 1.0, "graph_ms": 0.5, "error": 1e-4, "first_error": 1e-4}
    return {"case": astuple(case), "kind": kind} | measured | found


class Rnn(InFolder):
    def setUp(self):
        super().setUp()
        self.results = rnn.Results(self.path / "rnn.jsonl")

    def row(self, case, plain, **ours):
        """The row of a run without the library and a run under it."""
        self.results.add(line(case, "plain", **plain))
        self.results.add(line(case, "force", **ours))
        return rnn.Row(case, self.results)

    def test_every_case_comes_once_and_the_paper_s_networks_first(self):
        cases = rnn.cases()
        self.assertEqual(len(cases), len({case.name for case in cases}))
        self.assertEqual({case.network for case in cases[:16]}, {"text", "char"})
        told = {(case.cell, case.precision, case.layout, case.directions) for case in cases if case.network == "layouts"}
        self.assertEqual(len(told), len(rnn.CELLS) * len(rnn.PRECISIONS) * len(rnn.LAYOUTS) * 2)

    def test_what_is_there_is_not_run_again(self):
        wanted = rnn.cases()[:3]
        self.results.add(line(wanted[0], "plain"))
        with open(self.results.path, "a") as file:
            file.write('{"case": ["te')
        again = rnn.Results(self.results.path)
        self.assertEqual(again.missing(wanted, "plain"), wanted[1:])
        self.assertEqual(again.missing(wanted, "auto"), wanted)
        again.add(line(wanted[1], "plain"))
        self.assertEqual(rnn.Results(self.results.path).missing(wanted, "plain"), wanted[2:])

    def test_errors_are_held_against_plain_s(self):
        by_type = {case.precision: case for case in rnn.cases() if case.network == "layouts" and not case.extra}
        for precision, factor in (("float", 2), ("half", 1.5), ("tf32", 1.5), ("bfloat16", 1.5)):
            case = by_type[precision]
            self.assertFalse(self.row(case, {}, error=0.99e-4 * factor).is_wrong)
            self.assertTrue(self.row(case, {}, error=1.01e-4 * factor).is_wrong)
            self.assertTrue(self.row(case, {}, graph_error=math.nan).is_wrong)

    def test_a_failure_of_ours_alone_is_wrong(self):
        case = rnn.cases()[0]
        self.assertTrue(self.row(case, {}, failed="an illegal address").is_wrong)
        self.assertFalse(self.row(case, {"failed": "not supported"}, failed="not supported").is_wrong)

    def test_the_table_tells_of_it(self):
        case, other = rnn.cases()[:2]
        rows = [self.row(case, {}, error=1.0), self.row(other, {})]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(rnn.write(self.path, rows), 1)
        self.assertIn(f"2 cases, 2 compared with float64, 1 wrong: {case.name}", said.getvalue())
        self.assertIn(f"{case.name} !", said.getvalue())
        self.assertEqual(len((self.path / "rnn.csv").read_text().splitlines()), 3)

    def test_bad_arguments_are_named(self):
        refused(self, rnn.parse_arguments, [
            ([], "--out is needed"),
            (["--out", "x", "--shim", "/no/such.so"], "/no/such.so: no such file"),
            (["--out", "x", "--only", "lstn"], "no case is like this"),
            (["--out", "x", "--seconds", "0"], "'0' is not a number above 0"),
        ])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
