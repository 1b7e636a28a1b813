"""Checks of rnn_training.py that need no GPU and no PyTorch: `python -m unittest` in this folder."""

import contextlib
import io
import json
import os
import unittest
from types import SimpleNamespace
from unittest import mock

import rnn
import rnn_training
from harness import turns
from harness.budget import Budget
from harness.children import Ended, python
from harness.cudnn import ROOT
from harness.results import decisions
from harness.testing import InFolder


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

    def test_repeated_passes_are_of_every_cell_type_and_form(self):
        cases = rnn_training.repeated_cases()
        told = {(case.cell, case.precision) for case in cases}
        self.assertEqual((len(cases), told), (8, {(cell, kind) for cell in ("lstm", "gru") for kind in rnn.PRECISIONS}))
        self.assertEqual({case.layout for case in cases}, set(rnn.LAYOUTS))
        self.assertEqual({case.directions for case in cases}, {1, 2})
        self.assertEqual({case.precision for case in rnn_training.among(cases, "cpu", "*")}, {"float"})
        self.assertEqual(len(rnn_training.among(cases, "cuda", "*/half/*")), 2)

    def test_layers_have_names(self):
        self.assertEqual(rnn_training.layers("gru/*/H256 B32")["gru/half/H256 B32"], ("gru", "half", 256, 32, {}))
        [projected] = rnn_training.layers("projected/half/H1024*").values()
        self.assertEqual(projected, ("lstm", "half", 1024, 32, {"proj_size": 256}))
        self.assertEqual(len(rnn_training.layers("lstm/half/*")), 20)
        self.assertLess(set(rnn_training.FIRST), set(rnn_training.layers()))

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
        ways = rnn_training.WAYS
        case, times = ("lstm/half/H8 B1",) * 2, (dict(zip(ways, (1.0, 2.0, 3.0))), dict(zip(ways, (0.5, 1.0, 6.0))))
        for off, expected in ((1e-3, True), (0.1, False), (float("nan"), False)):
            words, is_right = compared(case=case, times=times, off=(0.0, off))
            self.assertEqual(is_right, expected, off)
        self.assertIn("forward 1.000 0.500 0.50; captured 2.000 1.000 0.50; eager 3.000 6.000 2.00", words)

    def test_processes_answer_by_their_median_and_their_largest_difference(self):
        answers = [{"times": {"eager": time}, "off": off, "chosen": [name]}
                   for time, off, name in ((3.0, 0.1, "a"), (1.0, float("nan"), "b"), (2.0, 0.2, "c"))]  # fmt: skip
        answers = [rnn_training.least([answer]) for answer in answers]
        found = rnn_training.median(answers)
        self.assertEqual((found["times"], found["usual"]), ({"eager": 2.0}, {"eager": 2.0}))
        self.assertNotEqual(found["off"], found["off"])
        self.assertEqual(rnn_training.median(answers[::2])["off"], 0.2)

    def visit(self, plain, ours, host=1.0):
        """The answers of a visit: eager milliseconds of processes of both kinds, of which the host takes a part."""
        answer = lambda time: {"times": {"eager": time}, "host": host * time, "off": time, "chosen": ["a"],
                               "case": "lstm/half/H1 B1"}  # fmt: skip  # noqa: E731
        return {"plain": list(map(answer, plain)), "ours": list(map(answer, ours))}

    def test_a_process_gives_the_least_of_its_visits(self):
        found = rnn_training.visited([self.visit([1.0, 5.0], [2.0, 2.0]), self.visit([3.0, 4.0], [4.0, 1.0]),
                                      self.visit([2.0, 3.0], [6.0, 3.0])])  # fmt: skip
        plain, ours = found["plain"], found["ours"]
        self.assertEqual((plain["times"], ours["times"]), ({"eager": 2.0}, {"eager": 1.5}))
        self.assertEqual((plain["usual"], ours["usual"]), ({"eager": 3.0}, {"eager": 3.0}))
        self.assertEqual((ours["visits"], ours["off"], ours["chosen"]), (3, 6.0, ["a"]))
        words, _ = rnn_training.compare(plain, ours)
        self.assertIn("eager 2.000 1.500 0.75; a; the least of 3 visits, whose median is 3.000 3.000 1.00", words)

    def test_later_visits_are_for_the_eager_step_alone(self):
        visits = [{"times": {"captured": 1.0, "eager": 3.0}, "off": 0.0, "chosen": None},
                  {"times": {"eager": 2.0}, "off": 0.0, "chosen": None}]  # fmt: skip
        found = rnn_training.least(visits)
        self.assertEqual((found["times"], found["each"]), ({"captured": 1.0, "eager": 2.0}, {"captured": [1.0], "eager": [3.0, 2.0]}))

    def test_layers_that_are_the_host_s_and_near_plain_s_are_visited_again(self):
        answers = {"near": self.visit([1.0], [0.9]), "slower": self.visit([1.0], [1.3]), "faster": self.visit([1.0], [0.7]),
                   "the device's": self.visit([1.0], [1.0], host=0.5)}  # fmt: skip
        answers = {name: [visit] for name, visit in answers.items()}
        names = list(rnn_training.in_visits(list(answers), answers))
        self.assertEqual(names, [*answers, *["near", "slower"] * (rnn_training.VISITS - 1)])

    def test_later_visits_come_in_when_the_first_are_known(self):
        layers = {"lstm/half/H1 B1": 0.9, "lstm/half/H2 B1": 0.5}
        options = SimpleNamespace(layers=list(layers), ways=["eager"], seconds=None)
        answer = lambda _, names, __: ((name, self.visit([0.0011], [0.001 * layers[name]])) for name in names)  # noqa: E731
        with mock.patch("rnn_training.kinds_of"), mock.patch("harness.turns.answers", answer), \
                contextlib.redirect_stdout(io.StringIO()) as printed:
            found, is_right = rnn_training.times(options)
        self.assertTrue(is_right)
        self.assertEqual([line["ours"]["visits"] for line in found], [rnn_training.VISITS, 1])
        self.assertIn("lstm in half, eager: 1.64 times as fast, at least 1.22, of 2 layers", printed.getvalue())

    def test_the_choice_of_most_processes_is_shown_with_their_number(self):
        of = lambda *chosen: rnn_training.chosen_by([{"chosen": its} for its in chosen])  # noqa: E731
        ours, others = ["block", "back"], ["cuDNN", "cuDNN"]
        self.assertEqual(of(others, ours, ours), ["block", "back (2 of 3 processes)"])
        self.assertEqual((of(ours, ours), of(None, None)), (ours, None))
        self.assertEqual(of(None, None, ours), ["undecided (2 of 3 processes)"])

    def test_repeated_passes_have_the_same_bits_on_our_kernels(self):
        found = {"passes": 10, "different": 0, "chosen": ["block", "back"]}
        for change, is_right in (({}, True), ({"different": 1}, False), ({"chosen": None}, False),
                                 ({"chosen": ["cuDNN", "cuDNN"]}, False)):  # fmt: skip
            self.assertEqual(rnn_training.compare_repeats(found | change, True)[1], is_right, change)
        words, is_right = rnn_training.compare_repeats(found | {"chosen": None}, False)
        self.assertTrue(is_right)
        self.assertEqual(words, "0 of 10 passes differ; nothing chosen")

    def test_first_steps_may_take_a_little_longer(self):
        for seconds, is_right in (([9.0, 1.04, 1.0], True), ([1.06, 1.06, 0.1], False)):
            self.assertEqual(rnn_training.compare_first([1.0, 5.0, 1.0], seconds)[1], is_right, seconds)
        self.assertIn("1.000 plain, 0.500 ours, 0.500", rnn_training.compare_first([1.0], [0.5])[0])


SCRIPT = """
import os, sys, time
from harness import turns
for name in turns.asked():
    if name == os.environ["FAILS"]: sys.exit(1)
    if name == "slow": time.sleep(60)
    turns.tell({"case": name, "kind": os.environ["KIND"], "at": time.monotonic()})
"""


class Turns(InFolder):
    def answers(self, names, fails="", seconds=60.0):
        (self.path / "script.py").write_text(SCRIPT)
        environment = os.environ | {"PYTHONPATH": str(ROOT / "examples"), "FAILS": fails}
        kinds = {kind: [(python(self.path / "script.py"), environment | {"KIND": kind})] * 2 for kind in ("plain", "ours")}
        budget = Budget(seconds)
        return list(turns.answers(kinds, names, lambda: budget.left))

    def test_processes_take_turns(self):
        found = self.answers(["a", "b"])
        self.assertEqual([name for name, _ in found], ["a", "b"])
        order = [line["kind"] for _, its in found for line in sorted(sum(its.values(), []), key=lambda line: line["at"])]
        self.assertEqual(order, ["plain", "ours", "ours", "plain"] * 2)

    def test_a_process_that_fails_says_so_and_a_slow_one_is_cut(self):
        with self.assertRaisesRegex(Ended, "ended with 1"):
            self.answers(["a", "b"], fails="b")
        self.assertEqual([name for name, _ in self.answers(["a", "slow", "b"], seconds=5.0)], ["a"])
        with mock.patch("harness.turns.MOST", 5.0), self.assertRaisesRegex(Ended, "took longer than 5 s"):
            self.answers(["slow"], seconds=float("inf"))


class Processes(InFolder):
    def script(self, text):
        script = self.path / "script.py"
        script.write_text(text)
        return script

    def test_the_lines_of_a_child_are_its_json(self):
        text = 'import json, os, sys; print("noise"); print(json.dumps({"words": sys.argv[1:], "x": os.environ["X"]}))'
        found = rnn_training.child(self.script(text), ["--only", "a"], {"X": "b"})
        self.assertEqual(found, [{"words": ["--run", "--only", "a"], "x": "b"}])

    def test_a_child_that_fails_says_why(self):
        with self.assertRaisesRegex(Ended, "it ended with 1: no luck"):
            rnn_training.child(self.script("import sys; sys.exit('no luck')"), [], {})

    def test_what_was_chosen_comes_from_the_report(self):
        report = self.path / "report.jsonl"
        chosen = {"event": "rnn-training", "forward": "block", "backward": "back"}
        with mock.patch.dict(os.environ, {"UCUDNN_REPORT": str(report)}):
            self.assertEqual(decisions("rnn-training"), [])
            report.write_text("".join(json.dumps(line) + "\n" for line in ({"event": "began"}, chosen)))
            self.assertEqual(rnn_training.chosen_since([]), ["block", "back"])
            self.assertIsNone(rnn_training.chosen_since([chosen]))
        with mock.patch.dict(os.environ, clear=True):
            self.assertIsNone(decisions("rnn-training"))
            self.assertIsNone(rnn_training.chosen_since([]))

    def test_the_database_that_is_set_holds(self):
        options = SimpleNamespace(shim=self.path / "libucudnn.so", report=self.path / "report.jsonl")
        for given, database in (({}, "off"), ({"UCUDNN_DATABASE": "/d"}, "/d")):
            with mock.patch.dict(os.environ, given, clear=True):
                variables = rnn_training.preloaded(options, UCUDNN_RNN_TRAINING="auto")
            self.assertEqual((variables["UCUDNN_DATABASE"], variables["UCUDNN_RNN_TRAINING"]), (database, "auto"))
            self.assertEqual(variables["LD_PRELOAD"], str(options.shim.resolve()))


if __name__ == "__main__":
    unittest.main()
