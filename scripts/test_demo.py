"""Tests of the demonstration's arithmetic, table and turns: `python -m unittest` in this folder. Times are given."""

import contextlib
import io
import os
import pathlib
import stat
import sys
import tempfile
import types
import unittest
import unittest.mock

import demo  # first: it puts harness on the path

import compare
from harness import rounds
from harness.children import Ended
from harness.testing import InFolder
from progress import Progress
from turns import Runner


def report(**kernels):
    """A program's report with these times, by "layer_direction"."""
    names = [name.split("_") for name in kernels]
    return {"kernels": [
        {"layer": layer, "direction": direction, "times_ms": times, "algorithm_name": "GEMM", "workspace": 1 << 20,
         "x": [8, 3, 9, 9]} | dict.fromkeys(["w", "y", "pad", "stride", "dilation", "groups"], [1])
        for (layer, direction), times in zip(names, kernels.values(), strict=True)
    ]}  # fmt: skip


class Rounds(unittest.TestCase):
    def test_a_round_is_the_sum_of_its_medians(self):
        measured = report(a_F=[1, 2, 9, 10, 20, 90], b_F=[100, 100, 100, 200, 200, 200])
        self.assertEqual(rounds.totals(measured, 2), [102, 220])
        self.assertEqual(rounds.totals(measured, 3), [101.5, 159.5, 255])

    def test_scatter_is_the_distance_over_the_median(self):
        self.assertEqual(rounds.scatter([100, 130, 110]), 30 / 110)
        self.assertEqual(rounds.scatter([7]), 0)

    def test_quiet_rounds_are_said_to_be_quiet(self):
        said = rounds.verdict([1000, 1010, 1150], [800, 810, 805])
        self.assertIn("3 of each, scatter little: plain by 15% (1,000 to 1,150 ms), with us by 1% (800 to 810", said)
        self.assertNotIn("SCATTER", said)

    def test_the_disturbed_side_is_named_with_its_scatter(self):
        said = rounds.verdict([1000, 1010, 1005], [800, 1600, 820])
        self.assertIn("SCATTER by more than 15%: with us by 98% (800 to 1,600 ms).", said)
        self.assertNotIn("plain by", said)
        self.assertIn("1.25, 0.63, 1.23 times as fast", said)
        both = rounds.verdict([1000, 2000, 1500], [500, 1000, 750])
        self.assertIn("plain by 67% (1,000 to 2,000 ms), with us by 67%", both)
        self.assertIn("2.00, 2.00, 2.00 times as fast", both)

    def test_every_other_round_goes_backwards(self):
        ran = []
        found = rounds.in_turns(("plain", "with"), 3, lambda kind, number: ran.append((number, kind)) or number)
        self.assertEqual(ran, [(0, "plain"), (0, "with"), (1, "with"), (1, "plain"), (2, "plain"), (2, "with")])
        self.assertEqual(found, {"plain": [0, 1, 2], "with": [0, 1, 2]})

    def test_slowness_counts_waiting_for_a_processor(self):
        self.assertEqual(rounds.slowness((10, 5), (30, 5)), 1.0)
        self.assertEqual(rounds.slowness((10, 5), (30, 45)), 3.0)
        self.assertEqual(rounds.slowness((0, 0), (1, 99)), rounds.PATIENCE)
        self.assertEqual(rounds.slowness((0, 0), (0, 0)), 1.0)


class Table(unittest.TestCase):
    def rows(self, plain, preloaded, plans=()):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder)
            for side in ("plain", "with"):
                (output / side).mkdir()
                for kernel in plain["kernels"]:
                    (output / side / f"{kernel['layer']}.{kernel['direction']}.raw").write_bytes(b"\0" * 8)
            return demo.compare(types.SimpleNamespace(output=output, type="float"), [plain], [preloaded], plans)

    def test_rows_and_total_are_medians(self):
        # One round of three was disturbed, on both sides: no median moves.
        plain = report(conv1_F=[10, 10, 11, 90, 12, 11], conv2_F=[30, 30, 30, 30, 300, 30])
        preloaded = report(conv1_F=[5, 5, 5, 6, 6, 80], conv2_F=[20, 20, 20, 20, 20, 20])
        rows = self.rows(plain, preloaded, [{"direction": "F", "x": [8, 3, 9, 9], "division": "2×4[FFT]"}])
        self.assertEqual([(row["kernel"], row["plain_ms"], row["ms"]) for row in rows],
                         [("conv1 F", 11, 5.5), ("conv2 F", 30, 20)])  # fmt: skip
        self.assertEqual([row["division"] for row in rows], ["2×4[FFT]"] * 2)
        total = demo.total(rows)
        self.assertEqual((total["plain_ms"], total["ms"], total["workspace"]), (41, 25.5, 2 << 20))
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            compare.print_table([*rows, total])
        lines = shown.getvalue().splitlines()
        self.assertEqual(len({len(line) for line in lines[1:2] + lines[-2:]}), 1, lines)
        self.assertIn("1.61×", lines[-1])
        self.assertIn("2.00×", lines[2])
        options = types.SimpleNamespace(type="float", math="fma")
        agree, said = demo.sentences(options, {"asking_ms": 3210}, total, {"plain_ms": [41, 41], "ms": [25, 26]})
        self.assertTrue(agree)
        self.assertEqual(said[0], "An iteration takes 41 ms plain and 26 ms with us: 1.61 times as fast (medians). "
                                  "Planning took 3.2 s, once.")  # fmt: skip
        agree, said = demo.sentences(options, {"asking_ms": 1}, total | {"difference": 2e-5}, {"plain_ms": [1], "ms": [1]})
        self.assertFalse(agree)
        self.assertIn("DO NOT AGREE", said[-1])
        self.assertTrue(all(line.isascii() for line in said))
        rounding = types.SimpleNamespace(type="float", math="default", cudnn="libcudnn.so.9")
        for difference, is_right in ((8e-4, True), (3e-3, False)):
            found = demo.sentences(rounding, {"asking_ms": 1}, total | {"difference": difference}, {"plain_ms": [1], "ms": [1]})
            self.assertEqual(found[0], is_right)


class Shown(unittest.TestCase):
    def test_lines_without_a_terminal(self):
        file = io.StringIO()
        progress = Progress("demo", 4, file)
        progress.step("one", 3)
        progress.step("two", 9)
        progress.say("a warning")
        progress.step("three", 1)
        progress.close()
        self.assertEqual(file.getvalue(), "demo:   0% one\ndemo:  75% two\na warning\ndemo: 100% three\n")

    def test_a_bar_on_a_terminal(self):
        file = io.StringIO()
        file.isatty = lambda: True
        progress = Progress("demo", 2, file)
        with unittest.mock.patch.dict(os.environ, {"COLUMNS": "60"}):
            progress.step("one", 1)
            progress.step("a long line " * 9, 1)
        progress.say("a warning")
        progress.close()
        drawn = file.getvalue()
        self.assertIn("#" * 12 + "." * 12 + "  50% a long", drawn)
        self.assertLess(max(len(line) for line in drawn.split("\r\x1b[K")), 60)
        # The bar goes on below a warning, and leaves no trace.
        self.assertIn("\r\x1b[Ka warning\n\r\x1b[Kdemo: ", drawn)
        self.assertTrue(drawn.endswith("\r\x1b[K"))


# A stand-in for convnet: it writes down each iteration.
PROGRAM = """\
#!/usr/bin/env python3
import pathlib, sys
name, log, iterations = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
print("a warning", file=sys.stderr, flush=True)
print("turn: chose conv1 F\\nturn: chose conv1 BF\\nturn: ready", flush=True)
for _ in range(iterations):
    if not sys.stdin.readline():
        sys.exit(9)
    with log.open("a") as file:
        file.write(name)
    print("turn: ran", flush=True)
pathlib.Path(log.parent, name).write_text('{"total_ms": 1}')
"""


class Turns(InFolder):
    def setUp(self):
        super().setUp()
        self.program, self.heard = self.path / "program", []
        self.program.write_text(PROGRAM)
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def runner(self, name, iterations):
        command = [self.program, name, self.path / "log", iterations]
        return Runner(command, os.environ, self.path / name, self.heard.append)

    def test_iterations_run_in_turn(self):
        with self.runner("a", 3) as a, self.runner("b", 3) as b:
            for runner in (a, b):
                self.assertEqual(list(runner.until("ready")), ["chose conv1 F", "chose conv1 BF"])
            for runner in (a, b, b, a, b, a):
                runner.iterate()
            self.assertTrue(all(nanoseconds >= 0 for nanoseconds in a.scheduled()))
            self.assertEqual((a.finish(), b.finish()), ({"total_ms": 1}, {"total_ms": 1}))
        self.assertEqual((self.path / "log").read_text(), "abbaba")
        self.assertEqual(self.heard, ["a warning"] * 2)

    def test_a_program_that_ends_early_is_named_with_its_status(self):
        with self.runner("a", 1) as a:
            list(a.until("ready"))
            a.iterate()
            with self.assertRaisesRegex(Ended, "program a .*\nended with 0"):
                a.iterate()
        with self.runner("b", 2) as b:
            list(b.until("ready"))
            with self.assertRaisesRegex(Ended, "ended with 9"):
                b.finish()

    def test_a_program_that_hangs_is_killed(self):
        self.program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
        with unittest.mock.patch("turns.MOST", 0.1), self.runner("a", 1) as a:
            with self.assertRaisesRegex(Ended, "ended with -9"):
                list(a.until("ready"))


if __name__ == "__main__":
    unittest.main()
