"""Unit tests of the papers' figures (gpu/figures): their tables, and the time of each part. Times are given."""

import argparse
import contextlib
import io
import itertools
import os
import pathlib
import subprocess
import sys
import types
import unittest
import unittest.mock

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

from gpu import papers as command
from gpu.figures import convnets, desirable, divided, papers, policies, recurrent, streams, undercut
from harness import children
from harness.children import Child
from harness.testing import InFolder, refused

MEBI = 1 << 20


def kernel(layer, direction, ms, workspace=0, algorithm="GEMM"):
    return {"layer": layer, "direction": direction, "median_ms": ms, "workspace": workspace, "algorithm_name": algorithm,
            "x": [8, 3, 9, 9]} | {name: [1] for name in ("w", "y", "pad", "stride", "dilation", "groups")}  # fmt: skip


def report(*kernels, limit=None, asking=500.0):
    return {"limit": limit, "kernels": list(kernels), "workspace_total": 3 * MEBI, "asking_ms": asking}


class Plans(unittest.TestCase):
    def test_a_set_is_walked_from_its_fastest_to_its_smallest(self):
        points = [(0, 9.0), (10, 5.0), (100, 1.0)]

        def plans(limit):
            within = [point for point in points if limit == "none" or point[0] <= limit]
            return [{"layers": [{"workspace": within[-1][0], "time_ms": within[-1][1]}]}] if within else []

        walked = [(point["workspace"], point["time_ms"]) for point in desirable.walk(plans)]
        self.assertEqual(walked, points[::-1])
        points.pop(0)
        self.assertEqual(len(list(desirable.walk(plans))), 2)
        points.clear()
        self.assertEqual(list(desirable.walk(plans)), [])

    def test_measured_times_are_a_plan_with_what_was_decided(self):
        decided = {"direction": "BF", "division": "2×4[FFT]", "x": [8, 3, 9, 9], "event": "asked"}
        ran = report(kernel("conv1", "F", 1.5), kernel("conv1", "BF", 2.5, 64), limit=128)
        (plan,) = convnets.measured(ran, [decided])["plans"]
        self.assertEqual((plan["policy"], plan["limit"]), ("wr", 128))
        self.assertEqual([layer["division"] for layer in plan["layers"]], ["1×8[GEMM]", "2×4[FFT]"])
        self.assertEqual([layer["time_ms"] for layer in plan["layers"]], [1.5, 2.5])
        (plan,) = convnets.measured(ran, [decided], ("F",))["plans"]
        self.assertEqual([layer["direction"] for layer in plan["layers"]], ["F"])

    def test_equal_shares_stand_beside_the_division(self):
        plan = {"total": 120 * MEBI, "time_ms": 2.0, "workspace": 100 * MEBI, "equal_shares_ms": 5.0, "solve_ms": 0.5}
        _, first, second = divided.rows([plan, plan | {"equal_shares_ms": None, "solve_ms": None}])
        self.assertEqual(first, ["120 MiB", "2.00", "100.00", "5.00", "2.50", "0.50"])
        self.assertEqual(second[3:], ["–", "–", "–"])


class Undercut(unittest.TestCase):
    def test_only_layers_with_a_workspace_have_a_byte_less(self):
        best = report(kernel("conv1", "F", 2.0), kernel("conv2", "F", 1.0, MEBI, "FFT"), kernel("conv2", "BD", 9.0))
        less = report(kernel("conv2", "F", 4.0, 512, "WINOGRAD"), kernel("conv2", "BD", 9.0))
        none = report(kernel("conv1", "F", 2.0), kernel("conv2", "F", 5.0))
        merged = undercut.merged({"best": best, "less conv2": less, "no workspace": none})
        _, first, second, all_ = undercut.rows(best, merged, none)
        self.assertEqual(first, ["conv1", "GEMM", "0.00", "2.000", "–", "–", "–", "GEMM", "2.000 (1.00)"])
        self.assertEqual(second, ["conv2", "FFT", "1.00", "1.000", "WINOGRAD", "0.00", "4.000 (4.00)", "GEMM", "5.000 (5.00)"])
        self.assertEqual(all_, ["all", "", "", "3.000", "", "", "6.000 (2.00)", "", "7.000 (2.33)"])


class Policies(unittest.TestCase):
    def test_a_policy_is_compared_with_undivided_at_its_limit(self):
        kernels = [kernel("conv1", "F", 4.0), kernel("conv1", "BF", 6.0)]
        reports = {f"{kind} 8MiB": report(*kernels, asking=1500.0) for kind in ("plain", "undivided", "all")}
        totals = dict(zip(map(id, reports.values()), ((30.0, 29.0, 31.0), (20.0, 20.0, 20.0), (10.0, 9.0, 11.0)), strict=True))
        decision = {"direction": "BF", "x": [8, 3, 9, 9], "parts": [{"count": 2}]}
        decisions = {"plain 8MiB": [], "undivided 8MiB": [decision | {"parts": [{"count": 1}]}], "all 8MiB": [decision]}
        plain, undivided, all_ = policies.rows("8MiB", reports, decisions, lambda one: totals[id(one)])
        self.assertEqual(plain[:4], ["8MiB", "plain", "30.00 (29.00 to 31.00)", "0.67"])
        self.assertEqual(undivided[3:], ["1.00", "4.00", "0.00", "6.00", "0/2", "3.00", "1.50"])
        self.assertEqual((all_[3], all_[7]), ("2.00", "1/2"))
        del reports["undivided 8MiB"]
        plain, all_ = policies.rows("8MiB", reports, decisions, lambda one: totals[id(one)])
        self.assertEqual((plain[3], all_[3]), ("–", "–"))

    def test_whole_iterations_say_whether_they_settled(self):
        line = {"step_ms": 8.0, "p10_ms": 7.0, "p90_ms": 9.0, "convolution_ms": 3.0, "torch_peak": 5 * MEBI, "settled": False}
        found = {("plain", None): line | {"step_ms": 16.0}, ("undivided", "64MiB"): line, ("undivided", "8MiB"): line,
                 ("all", "64MiB"): line | {"step_ms": 4.0, "torch_peak": None}, ("powerOfTwo", "512MiB"): line}  # fmt: skip
        rows = list(policies.step_rows(found))
        self.assertEqual(rows[0], ["none", "plain", "16.00 (7.00 to 9.00)", "–", "3.00", "5", "yes"])
        self.assertEqual([row[3] for row in rows], ["–", "1.00", "1.00", "2.00", "–"])
        self.assertEqual((rows[3][5], rows[3][6]), ("–", "no"))


class Streams(unittest.TestCase):
    def line(self, error, ms=2.0):
        return {"errors": {"convolutions": {"a": 1e-3, "b": error}, "others": {"c": 1e-3}}, "step_ms": ms,
                "convolution_ms": 1.0, "device_peak": None, "arena": None}  # fmt: skip

    def test_an_error_like_plains_is_right_and_a_far_or_infinite_one_is_not(self):
        plain, worst = self.line(1e-3), lambda line: streams.worst_of(line, self.line(1e-3), "float")
        self.assertLessEqual(worst(plain)[0], 1.0)
        ratio, name = worst(self.line(5e-3))
        self.assertEqual((name, round(ratio, 1)), ("b", 5.0))
        self.assertGreater(worst(self.line(None))[0], streams.FACTOR)

    def test_rows_have_the_step_over_plains(self):
        found = dict.fromkeys(streams.KINDS, [])
        found |= {"plain, streams": [self.line(1e-3, 2.0)], "Division, streams": [self.line(1e-3, 3.0), self.line(1e-3, 5.0)]}
        _, plain, ours, *others = streams.rows(found, "half")
        self.assertEqual(plain[:4], ["plain, streams", "1", "2.00 (2.00 to 2.00)", "1.00"])
        self.assertEqual(ours[1:4], ["2", "4.00 (3.00 to 5.00)", "2.00"])
        self.assertTrue(all(other[1] == "0" for other in others))


class Recurrent(unittest.TestCase):
    def test_the_first_and_the_best_of_few_are_held_against_all(self):
        timed = lambda **times: [{"what": what, "step_ms": ms} for what, ms in times.items()]  # noqa: E731
        all_ = {"first": "a", "times": timed(cuDNN=0.5, a=3.0, b=2.0, c=1.0, d=None)}
        few = {"first": "a", "times": timed(cuDNN=0.5, a=9.0, b=9.5, d=1.0)}
        row = recurrent.searched("lstm/float/64/5", few, all_)
        self.assertEqual(row[:4], ["lstm/float/64/5", "3", "c", "1000.000"])
        self.assertEqual(row[4:], ["a", "3000.000", "200.0%", "b", "2000.000", "100.0%"])
        self.assertEqual(len(recurrent.searched("lstm/float/64/5", few, {"first": None, "times": []})), len(recurrent.SEARCHED))

    def test_cudnn_and_the_processor_stand_beside_ours(self):
        line = {"network": "lstm/float/64/5", "stream best": "STANDARD", "STANDARD stream ms": "3.0", "ours stream ms": "1.5",
                "stream faster": "2.0", "chosen": "grid u8"}  # fmt: skip
        refused_ = line | {"network": "gru/float/64/5", "stream best": "", "ours stream ms": "", "stream faster": ""}
        lines = {one["network"]: one for one in (line, refused_)}
        _, first, second = recurrent.rows(lines, {"lstm/float/64/5": 6.0})
        self.assertEqual(first, ["lstm/float/64/5", "3.000", "1.500", "2.00", "6.000", "4.00", "grid u8"])
        self.assertEqual(second[1:6], ["–"] * 5)

    def test_batch_5_comes_first_and_words_name_the_arithmetic(self):
        self.assertTrue(all(name.endswith("/5") for name in recurrent.NETWORKS[:10]))
        self.assertEqual(recurrent.in_words("gru/float/256/5", 100), "GRU hidden=256 batch=5 steps=100 type=float math=fma")


STEP = """
import pathlib, sys, time
from harness import turns
_, name, begun = sys.argv
if name == "broken" or name == "poor" and not pathlib.Path(begun).exists(): sys.exit(1)
while name == "late" and not pathlib.Path(begun).exists(): time.sleep(0.01)
if name != "filler":
    next(turns.asked())
    turns.tell({"step_ms": 1.0})
"""


class Parts(InFolder):
    def session(self, seconds, library="one"):
        (self.path / "libucudnn.so").write_text(library)
        options = types.SimpleNamespace(seconds=seconds, out=self.path, host=True, library=self.path / "libucudnn.so",
                                        command=None, cudnn=None, gpu="a GPU", python="no/python", only=["a*"], math="default")  # fmt: skip
        with contextlib.redirect_stderr(io.StringIO()):
            return papers.Papers(options)

    def test_results_of_another_library_do_not_count(self):
        self.session(1).results("steps").add({"name": "a", "step_ms": 1.0})
        self.session(1, library="another").results("steps").add({"name": "b", "step_ms": 2.0})
        self.assertEqual(list(self.session(1).results("steps").lines), ["a"])
        self.assertTrue(self.session(1, library="another").results("steps").is_there("b"))

    def test_only_what_is_wanted_is_measured(self):
        session = self.session(1000)
        self.assertEqual([session.wants(name) for name in ("a-64MiB", "b-64MiB")], [True, False])
        session.options.only = []
        self.assertTrue(session.wants("b-64MiB"))

    def test_whole_iterations_that_are_there_are_not_run_again(self):
        ran, session = [], self.session(1000 + papers.RESERVE)
        session.options.only, session.__dict__["python"] = ["*-plain", "*-64MiB"], "python"
        line = {"step_ms": 8.0, "p10_ms": 7.0, "p90_ms": 9.0, "convolution_ms": 3.0, "torch_peak": None, "settled": True}
        session.in_turns = lambda add, runs, *_: [ran.append(what) or add(line | {"name": what}) for what in runs][:0]
        for _ in range(2):
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                policies.steps(session)
        names = ("fig10-alexnet-step", "fig11-resnet18-step")
        kinds = ("plain", *(f"{policy}-64MiB" for policy in policies.POLICIES))
        self.assertEqual(ran, [f"{name}-{kind}" for name in names for kind in kinds])

    def test_processes_wait_for_their_turn_and_a_late_one_comes_last(self):
        (self.path / "script.py").write_text(STEP)
        session, begun = self.session(600 + papers.RESERVE), self.path / "begun"
        environment = os.environ | {"PYTHONPATH": str(papers.ROOT / "examples")}
        command = lambda *words: children.python(self.path / "script.py", *words, begun)  # noqa: E731
        session.step_process = lambda name, *_: Child(command(name), environment, given=subprocess.PIPE)
        results, runs = session.results("steps"), dict.fromkeys(("late", "a", "poor", "b", "broken"), ([], {}))
        # There is time for the filler, and then for each but the first.
        seconds = itertools.chain([60, 0, 0], itertools.repeat(60))
        given = type("Given", (), {"left": property(lambda _: next(seconds))})
        with contextlib.redirect_stderr(io.StringIO()), unittest.mock.patch.object(papers, "Budget", lambda _: given()):
            left_out = session.in_turns(results.add, runs, {"filler": ([], {})}, begun.touch)
        self.assertEqual((list(results.lines), left_out), (["a", "b", "late", "poor"], []))
        self.assertIn("WRONG    broken: ended with 1", session.noted.read_text())

    @unittest.mock.patch.object(papers.Papers, "took", 0.0)
    def test_a_part_leaves_the_later_ones_their_share(self):
        session = self.session(1000 + papers.RESERVE)
        session.leave(0.75)
        self.assertEqual(session.time, 250)
        session.leave(0.0)
        self.assertEqual(session.time, 1000)

    @unittest.mock.patch.object(papers.Papers, "took", 0.0)
    def test_each_part_has_its_share_and_what_one_leaves_goes_to_the_next(self):
        given, session = [], self.session(1000 + papers.RESERVE)
        parts = {name: (lambda its: given.append(its.time), share) for name, share in (("a", 3), ("b", 1))}
        with unittest.mock.patch.object(command, "PARTS", parts), contextlib.redirect_stderr(io.StringIO()), \
             contextlib.redirect_stdout(io.StringIO()), \
             unittest.mock.patch.object(command, "Papers", lambda options: session):  # fmt: skip
            self.assertEqual(command.main(types.SimpleNamespace(parts=["a", "b"])), 0)
        self.assertEqual(given, [750, 1000])

    def test_what_time_was_up_for_is_left_out_and_a_failure_is_wrong(self):
        session = self.session(1 + papers.RESERVE)
        with contextlib.redirect_stderr(io.StringIO()):
            log = self.path / "log"
            self.assertFalse(session.succeeds("slow", log, ["sleep", 100], 1, None, log))
            self.assertEqual(session.finish(), 0)
            self.assertFalse(session.succeeds("broken", log, ["false"], 1, None, log))
            self.assertEqual(session.finish(), 1)
        checks = (self.path / "checks.txt").read_text()
        self.assertIn("skipped  slow: took too long", checks)
        self.assertIn("WRONG    broken: ended with 1", checks)

    def test_runs_without_time_are_named_on_one_line(self):
        session = self.session(1 + papers.RESERVE)
        with contextlib.redirect_stderr(io.StringIO()):
            session.leave_out("streams", [])
            session.leave_out("streams", ["plain", "Division"])
        self.assertEqual((self.path / "checks.txt").read_text(), "skipped  streams: no time left for 2 runs: plain; Division\n")

    def test_a_part_that_is_none_is_refused(self):
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        self.assertEqual(parser.parse_args(["--parts", "grnn,fig1"]).parts, ["grnn", "fig1"])
        self.assertEqual(parser.parse_args([]).parts, list(command.PARTS))
        refused(self, parser.parse_args, [(["--parts", "fig2"], "'fig2' is no part; fig9, steps, fig12"),
                                          (["--math", "half"], "--math")])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
