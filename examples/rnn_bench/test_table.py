"""Tests that need no GPU: `python -m unittest` in this folder."""

import contextlib
import csv
import io
import itertools
import math
import pathlib
import sys
import tempfile
import unittest

import table  # first: it puts harness on the path

import exhaustive
import networks
import picture
import summary
from harness.testing import InFolder, refused, texts_apart


def line(name, cudnn=4.0, ours=2.0, rounds=3, steps=100, **others):
    """A line that rnn_bench could have produced, with times of cuDNN's best algorithm and of ours, in milliseconds."""
    cell, type_, hidden, batch = name.split("/")

    def contender(name, stream, error=1e-7):
        scattered = [stream * (1 + 0.01 * round) for round in range(rounds)]
        graph = [0.9 * ms for ms in scattered]
        return {"name": name, "stream_ms": scattered, "stream_error": error, "graph_ms": graph, "graph_error": error}

    contenders = [contender("STANDARD", 2 * cudnn), contender("PERSIST_STATIC", cudnn),
                  {"name": "PERSIST_DYNAMIC", "refused": "cudnnBuildRNNDynamic: CUDNN_STATUS_NOT_SUPPORTED"},
                  {"name": "PERSIST_STATIC_SMALL_H", "refused": "cudnnSetRNNDescriptor_v8: CUDNN_STATUS_NOT_SUPPORTED"},
                  contender("ours", ours, 3e-7)]  # fmt: skip
    return {"network": name, "cell": cell, "type": type_, "hidden": int(hidden), "batch": int(batch), "steps": steps,
            "device": "a GPU", "cudnn": 91900, "over": "PERSIST_STATIC", "rows_checked": 1,
            "decision": {"chosen": "grid u8 b4 t256 l32 r128"}, "contenders": contenders} | others  # fmt: skip


def rows(lines):
    return [summary.Row(line) for line in lines]


class Order(unittest.TestCase):
    def test_every_network_comes_once(self):
        axes = (networks.CELLS, networks.TYPES, networks.SIZES, networks.BATCHES)
        every = {"/".join(map(str, place)) for place in itertools.product(*axes)}
        self.assertEqual(set(networks.grid()), every)
        self.assertEqual(len(networks.grid()), len(every))

    def test_what_has_floors_comes_first(self):
        with_floors = [name for name in networks.grid() if networks.floor_of(name, 100)[1]]
        self.assertEqual(with_floors, networks.grid()[:36])
        self.assertTrue(all(name.startswith("lstm/") for name in with_floors[:18]))

    def test_floors_are_for_their_steps(self):
        self.assertEqual(networks.floor_of("lstm/half/256/10", 100), (1.5, 2.5))
        self.assertEqual(networks.floor_of("gru/float/1024/20", 100), (1.1, 1.5))
        for name, steps in [("lstm/half/256/10", 20), ("tanh/half/256/10", 100), ("lstm/tf32/256/10", 100)]:
            self.assertEqual(networks.floor_of(name, steps), (networks.LEAST, None))


class Resuming(InFolder):
    """A program takes rnn_bench's place: it prints a line for each network, and fails at the `broken` ones."""

    PROGRAM = """#!{python}
import json, sys
for name in sys.argv[1:]:
    if name in {broken!r}:
        sys.exit("the device is lost")
    print(json.dumps({line!r} | {{"network": name}}), flush=True)
"""

    def run_table(self, *words, broken=()):
        bench = self.path / "bench"
        template = {**line("lstm/half/64/1"), "decision": None}
        bench.write_text(self.PROGRAM.format(python=sys.executable, broken=list(broken), line=template))
        bench.chmod(0o755)
        options = table.parse_arguments(["--bench", str(bench), "--out", str(self.path), *words])
        options.out = self.path
        with contextlib.redirect_stderr(io.StringIO()) as said:
            results = table.results_of(self.path / "results.jsonl")
            table.Runner(options, results).run_all()
        return results, said.getvalue()

    def test_finished_networks_are_not_repeated(self):
        self.run_table("--only", "lstm/half/64/1", "--only", "lstm/half/64/4")
        results, said = self.run_table("--only", "lstm/half/64/*")
        self.assertIn("2 networks are there, 4 to go", said)
        self.assertEqual(len((self.path / "results.jsonl").read_text().splitlines()), 6)
        self.assertEqual(len(results.lines), 6)

    def test_one_that_fails_does_not_take_the_others_along(self):
        bad = "lstm/half/64/10"
        results, _ = self.run_table("--only", "lstm/half/64/*", broken=[bad])
        self.assertIn("the device is lost", results.lines[bad]["failed"])
        self.assertEqual([name for name, line in results.lines.items() if "failed" in line], [bad])
        self.assertEqual(len(results.lines), 6)
        results, said = self.run_table("--only", "lstm/half/64/*")
        self.assertIn("6 networks are there, 0 to go", said)
        results, _ = self.run_table("--only", "lstm/half/64/*", "--again")
        self.assertNotIn("failed", results.lines[bad])

    def test_a_line_cut_off_costs_that_line_alone(self):
        self.run_table("--only", "lstm/half/64/1")
        with open(self.path / "results.jsonl", "a") as file:
            file.write('{"network": "lstm')
        results, said = self.run_table("--only", "lstm/half/64/*")
        self.assertIn("1 networks are there, 5 to go", said)
        self.assertEqual(len(table.results_of(self.path / "results.jsonl").lines), 6)


class Ratios(unittest.TestCase):
    def test_ours_to_the_best_algorithm_that_runs(self):
        [row] = rows([line("lstm/float/256/1", cudnn=5.0, ours=2.0)])
        self.assertEqual((row.best("stream"), row.best("graph")), ("PERSIST_STATIC", "PERSIST_STATIC"))
        for mode in summary.MODES:
            for found, expected in zip(row.faster(mode), (2.5, 2.5, 2.5), strict=True):
                self.assertAlmostEqual(found, expected)
        self.assertFalse(row.is_below)

    def test_below_its_floor_only_in_every_round(self):
        [row] = rows([line("lstm/float/256/1", cudnn=3.0, ours=2.0)])
        self.assertTrue(row.is_below)
        ours = row.contenders["ours"]
        ours["stream_ms"][1] = ours["graph_ms"][1] = 1.0
        self.assertFalse(row.is_below)

    def test_what_is_not_known_is_a_dash(self):
        bare = line("lstm/float/256/1")
        bare["contenders"] = [{"name": name, "refused": "no"} for name in summary.ALGORITHMS]
        [row] = rows([bare])
        self.assertIsNone(row.faster("stream"))
        self.assertEqual(summary.line_of(row)[1:9], ["–"] * 8)
        self.assertIn("lstm/float/256/1", summary.text([row], []))

    def test_an_error_that_is_no_number_is_told(self):
        poisoned, unchecked = line("lstm/float/64/1"), line("lstm/float/1536/1", rows_checked=0)
        poisoned["contenders"][-1]["graph_error"] = None
        poisoned, unchecked = rows([poisoned, unchecked])
        self.assertTrue(math.isnan(poisoned.error("ours")))
        self.assertIn("nan", summary.line_of(poisoned))
        self.assertIsNone(unchecked.error("ours"))

    def test_all_together(self):
        lines = [line("lstm/float/256/1", 4, 1), line("lstm/half/256/1", 3.8, 2), line("tanh/half/64/1", 1, 2)]
        text = summary.text(rows(lines), [{"network": "relu/half/64/1", "failed": "out of memory"}])
        self.assertIn("stream: 3 networks, median 1.90 times as fast, least 0.50 (tanh/half/64/1), 1 below 0.98; "
                      "2 of 2 floors met, 1 goals reached", text)  # fmt: skip
        self.assertIn("failed: relu/half/64/1: out of memory", text)
        self.assertIn("tanh/half/64/1 !", text)

    def test_csv_has_a_field_for_each_column(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.csv"
            summary.write_csv(path, rows([line("lstm/float/256/1"), line("gru/half/64/4")]))
            with open(path, newline="") as file:
                header, *lines = csv.reader(file)
        self.assertEqual([len(cells) for cells in lines], [len(header)] * 2)
        found = dict(zip(header, lines[0], strict=True))
        self.assertEqual([found[f"stream {name}"] for name in ("best", "faster")], ["PERSIST_STATIC", "2.0"])
        self.assertEqual((found["PERSIST_DYNAMIC stream ms"], found["ours graph ms"]), ("", str(2.0 * 1.01 * 0.9)))


class Exhaustive(unittest.TestCase):
    def timed(self, name, *times):
        told = [{"what": f"grid u{rank}", "step_ms": time} for rank, time in enumerate(times)]
        return {"network": name, "decision": {"times": told}}

    def test_the_first_choice_is_held_against_the_best(self):
        found = exhaustive.gap(self.timed("lstm/half/64/1", 1.1e-3, None, 1.0e-3, 2.0e-3))
        self.assertEqual(found, ("grid u0", 1.1e-3, "grid u2", 1.0e-3, 3, 3))
        text = exhaustive.text([self.timed("lstm/half/64/1", 1.1e-3, 1.0e-3), self.timed("lstm/half/64/10", 1e-3, 3e-3)])
        self.assertIn("2 networks: the first choice takes 5.0% longer than the best (median 5.0%, most 10.0%)", text)

    def test_without_times_nothing_is_told(self):
        lines = [self.timed("lstm/half/64/1", None, 1e-3, 2e-3), {"network": "gru/half/64/1", "failed": "out of memory"}]
        self.assertEqual([exhaustive.gap(line) for line in lines], [None, None])
        self.assertIn("out of memory", exhaustive.text(lines))
        self.assertNotIn("networks:", exhaustive.text(lines))


class Picture(unittest.TestCase):
    def test_no_texts_overlap(self):
        for names in (networks.grid(), networks.grid()[:7], ["lstm/half/24/3"]):
            ratios = itertools.cycle((0.031, 0.5, 1.0, 12.345, 123.4))
            drawn = picture.draw(rows(line(name, next(ratios), 1.0) for name in names))
            self.assertGreater(texts_apart(self, drawn), 2 * len(names))

    def test_a_network_has_its_speed_up_and_no_floor(self):
        below, above = (picture.draw(rows([line("lstm/float/256/1", faster, 1.0)])) for faster in (1.5, 2.5))
        self.assertIn("1.50×<", below)
        self.assertIn("2.50×<", above)
        for drawn in (below, above):
            self.assertNotIn("≥", drawn)
            self.assertNotIn("#d93025", drawn)


class Arguments(unittest.TestCase):
    def test_bad_ones_are_named(self):
        refused(self, table.parse_arguments, [
            (["--out", "x", "--shim", "/no/such.so"], "/no/such.so: no such file"),
            (["--out", "x", "--only", "lstn/*"], "no network is like this; there are cells lstm"),
            (["--out", "x", "--network", "lstm/half/0/1"], "'lstm/half/0/1' is not CELL/TYPE/HIDDEN/BATCH"),
            (["--out", "x", "--network", "lstm/half/9/1", "--only", "*"], "take one of them"),
            (["--out", "x", "--exhaustive", "1"], "--exhaustive 1: takes a number above 1"),
            (["--out", "x", "--seconds", "-1"], "'-1' is not a number above 0"),
            ([], "--out"),
        ])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
