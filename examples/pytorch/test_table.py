"""Tests that need no GPU and no PyTorch: `python -m unittest` in this folder."""

import itertools
import json
import os
import tempfile
import types
import unittest
import unittest.mock

import table  # first: it puts harness on the path

import cache
import cells
import picture
import results
import summary
import warming
from cells import MODES
from harness.testing import InFolder, refused, texts_apart


def line(run, mode, step, **others):
    """A line that a run could have produced."""
    errors = {"convolutions": {"a": 1e-3, "b": 2e-3}, "others": {"c": 1e-3}}
    measured = {"step_ms": step, "convolution_ms": step / 2, "device_peak": 3 << 30, "device_settled": 2 << 30,
                "torch_peak": 1 << 30, "workspace": 64 << 20, "errors": errors, "settled": True,
                "where": "here"}  # fmt: skip
    identity = dict(zip(results.IDENTITY, (*run.configuration, mode, run.group, run.policy, run.round), strict=True))
    return identity | measured | others


class Order(unittest.TestCase):
    def test_every_cell_comes_once(self):
        runs = [run for turn in cells.turns(2, MODES) for run in turn]
        found = [cell for run in runs if run.policy in cells.POLICIES for cell in run.cells()]
        # vgg16's times without a limit come early, and again with the rest.
        without = [cell for cell in found if cell[5] != "cache"]
        self.assertEqual(len(without), len(set(without)))
        axes = (cells.NETWORKS, cells.LAYOUTS, cells.PRECISIONS, ("off", "on"), MODES, cells.POLICIES, (1, 2))
        self.assertEqual({cell[:5] + cell[6:] for cell in without}, set(itertools.product(*axes)))

    def test_resnet50_in_full_and_the_others_at_64_mib_come_first(self):
        first, *others = itertools.islice(cells.turns(2, MODES), len(cells.NETWORKS))
        self.assertEqual([(run.network, run.policy) for run in first],
                         [("resnet50", policy) for policy in (cells.PLAIN, cells.BESIDE, *cells.POLICIES)])  # fmt: skip
        self.assertEqual([turn[0].network for turn in others], list(cells.NETWORKS[1:]))
        policies = {cells.PLAIN, cells.BESIDE, *cells.HEADLINE}
        self.assertTrue(all({run.policy for run in turn} == policies for turn in others))

    def test_rounds_alternate(self):
        forwards, backwards = cells.turns(2, MODES, ["resnet50/nchw/half/off/eager/*"])
        self.assertEqual([run.policy for run in forwards], [run.policy for run in backwards][::-1])
        self.assertEqual(({run.round for run in forwards}, {run.round for run in backwards}), ({1}, {2}))

    def test_patterns_bring_plain_along_in_nchw_in_both_layouts(self):
        for layout, plain in [
            ("nchw", [("nchw", cells.PLAIN), ("channels_last", cells.BESIDE)]),
            ("channels_last", [("channels_last", cells.PLAIN)]),
        ]:
            turns = list(cells.turns(1, MODES, [f"resnet18/{layout}/half/off/graphs/64MiB"]))
            self.assertEqual([[(run.layout, run.policy) for run in turn] for turn in turns],
                             [[*plain, (layout, "64MiB")]])  # fmt: skip
            self.assertEqual({run.modes for run in turns[0]}, {("graphs",)})

    def test_no_two_runs_have_the_same_result(self):
        found = [cell for turn in cells.turns(2, MODES) for run in turn for cell in run.cells()]
        self.assertEqual(len(found), len(set(found)))


class Resuming(InFolder):
    def setUp(self):
        super().setUp()
        self.path /= "results.jsonl"
        self.turn = next(iter(cells.turns(1, ("eager", "graphs"))))

    def add(self, run, where="here", modes=None, **found):
        known = results.Results(self.path)
        for cell in run.cells()[:modes]:
            known.add(cell, {"step_ms": 1.0, "where": where} | found)

    def missing(self, where="here", again=False):
        return results.Results(self.path).missing(self.turn, where, again)

    def test_finished_runs_are_not_repeated(self):
        self.assertEqual(self.missing(), self.turn)
        self.add(self.turn[0])
        self.assertEqual(self.missing(), self.turn[1:])

    def test_a_run_without_its_last_mode_is_repeated(self):
        self.add(self.turn[0], modes=1)
        self.assertEqual(self.missing(), self.turn)

    def test_a_line_cut_off_costs_that_line_alone(self):
        self.add(self.turn[0])
        with open(self.path, "a") as file:
            file.write('{"network": "resn')
        self.assertEqual(self.missing(), self.turn[1:])
        self.add(self.turn[1])
        self.assertEqual(self.missing(), self.turn[2:])

    def test_a_turn_begun_elsewhere_is_made_anew_and_a_finished_one_is_not(self):
        self.add(self.turn[0])
        self.assertEqual(self.missing("there"), self.turn)
        for run in self.turn[1:]:
            self.add(run)
        self.assertEqual(self.missing("there"), [])

    def test_failed_cells_are_repeated_on_demand(self):
        for run in self.turn:
            self.add(run)
        self.add(self.turn[3], failed="out of memory")
        self.assertEqual(self.missing(), [])
        self.assertEqual(self.missing(again=True), [self.turn[3]])


class Ratios(unittest.TestCase):
    def beside(self, steps):
        """Two rounds of ResNet-50, 10 ms plain and 9 and 8 with us, and what plain took in channels_last if known."""
        turns = cells.turns(2, ("eager",), ["resnet50/nchw/half/off/eager/unset"])
        for turn, ours, other in zip(turns, (9.0, 8.0), steps, strict=True):
            times = {cells.PLAIN: 10.0, "unset": ours, cells.BESIDE: other}
            yield from (line(run, "eager", times[run.policy]) for run in turn if times[run.policy])

    def lines(self, steps, **others):
        """The lines of rounds: (plain, ours) in milliseconds for ResNet-50's first policy."""
        turns = list(cells.turns(len(steps), ("eager",), ["resnet50/nchw/half/off/eager/unset"]))
        pairs = [
            (next(r for r in turn if r.policy == cells.PLAIN), next(r for r in turn if r.policy == "unset"))
            for turn in turns
        ]
        for (plain, ours), (a, b) in zip(pairs, steps, strict=True):
            yield line(plain, "eager", a)
            yield line(ours, "eager", b, **others)

    def test_medians_and_their_spread(self):
        [row] = summary.rows(self.lines([(10.0, 9.0), (12.0, 12.0), (11.0, 11.0)]))
        self.assertEqual((row.runs, row.plain["step_ms"], row.ours["step_ms"]), (3, 11.0, 11.0))
        self.assertEqual((row.ratio, row.least, row.most), (1.0, 0.9, 1.0))
        self.assertAlmostEqual(row.scatter, 2 / 11)

    def test_a_round_without_its_plain_run_does_not_count(self):
        lines = list(self.lines([(10.0, 9.0), (10.0, 8.0)]))
        [row] = summary.rows(lines[1:])
        self.assertEqual((row.runs, row.ratio), (1, 0.8))

    def test_gradients_by_their_worst_parameter(self):
        errors = {"convolutions": {"a": 1.5e-3, "b": 1e-3}, "others": {"c": None}}
        [row] = summary.rows(self.lines([(10.0, 9.0)], errors=errors))
        self.assertAlmostEqual(row.gradients, 1.5)
        self.assertEqual(row.others, float("inf"))

    def test_what_is_not_known_is_a_dash(self):
        [row] = summary.rows(self.lines([(10.0, 9.0)], convolution_ms=None, device_peak=None, errors=None))
        self.assertIsNone(row.gradients)
        self.assertIsNone(row.ratio_of("device_peak"))
        self.assertIn("–", summary.text([row], []))

    def test_a_cell_in_nchw_is_compared_with_plain_in_channels_last(self):
        [row] = summary.rows(self.beside((5.0, 4.0)))
        self.assertEqual((row.configuration[1], row.beside, row.over_beside), ("nchw", 4.5, 8.5 / 4.5))
        self.assertEqual(row.ratio, 0.85)
        text = summary.text([row], [])
        [cell] = [words.split() for words in text.splitlines() if words.startswith("  unset")]
        self.assertEqual(cell[7:9], ["4.50", "1.889"])
        [policy] = [words.split() for words in text.splitlines() if words.startswith("unset")]
        self.assertEqual(policy[-6:-3], ["1.889"] * 3)

    def test_only_rounds_with_plain_in_channels_last_are_compared_with_it(self):
        [row] = summary.rows(self.beside((None, 4.0)))
        self.assertEqual((row.runs, row.beside, row.over_beside), (2, 4.0, 2.0))
        [row] = summary.rows(self.beside((None, None)))
        self.assertEqual((row.runs, row.beside, row.over_beside), (2, None, None))
        [cell] = [words.split() for words in summary.text([row], []).splitlines() if words.startswith("  unset")]
        self.assertEqual(cell[7:9], ["–", "–"])

    def test_channels_last_is_compared_with_its_own_plain_runs_alone(self):
        found = [line(run, "eager", {"plain": 4.0, "unset": 3.0}.get(run.policy, 2.0))
                 for layout in cells.LAYOUTS
                 for turn in cells.turns(1, ("eager",), [f"resnet18/{layout}/half/off/eager/unset"])
                 for run in turn]  # fmt: skip
        self.assertEqual([(row.configuration[1], row.plain["step_ms"], row.beside) for row in summary.rows(found)],
                         [("nchw", 4.0, 2.0), ("channels_last", 4.0, None)])  # fmt: skip

    def test_undivided_is_what_the_same_limit_is_compared_with(self):
        [turn] = cells.turns(1, ("eager",), ["resnet50/nchw/half/off/eager/*64MiB"])
        times = {cells.PLAIN: 10.0, cells.BESIDE: 5.0, "64MiB": 9.0, "undivided 64MiB": 18.0}
        text = summary.text(summary.rows(line(run, "eager", times[run.policy]) for run in turn), [])
        [row] = [words for words in text.splitlines() if words.startswith("64MiB")]
        self.assertEqual(row.split()[-3:], ["0.500"] * 3)

    def test_failures_are_told(self):
        [run] = [
            run
            for turn in cells.turns(1, ("eager",), ["unet/nchw/half/off/eager/0"])
            for run in turn
            if run.policy == "0"
        ]
        text = summary.text([], [line(run, "eager", 0.0, failed="out of memory")])
        self.assertIn("unet/nchw/half/off/eager/0/1: out of memory", text)


class WarmingUp(unittest.TestCase):
    def steps(self, events):
        """A warm-up's steps, and whether all settled, if the report gets these events after these steps."""
        with tempfile.NamedTemporaryFile("a") as report:
            device, taken = types.SimpleNamespace(), 0

            def times(step, count):
                nonlocal taken
                for at in range(taken, taken + count):
                    report.write("".join(json.dumps(event) + "\n" for event in events.get(at, ())))
                report.flush()
                taken += count
                return [1.0] * count

            device.times = times
            options = types.SimpleNamespace(least=20, most=400, warm_up_seconds=60)
            with unittest.mock.patch.dict(os.environ, UCUDNN_REPORT=report.name):
                return warming.warm_up(None, device, options)

    def test_every_kernel_is_explored_to_its_end(self):
        first, second, third = ({"spec": name, "limit": 1} for name in "abc")
        begun = [{"event": "exploring"} | kernel for kernel in (first, second, third)]
        ran = [{"event": "timed"}, {"event": "ran"} | first]
        unchanged = {"event": "unchanged"} | second
        last = {"event": "ran"} | third
        self.assertEqual(self.steps({3: begun, 12: ran, 14: [unchanged], 150: [last]}), (240, True))
        self.assertEqual(self.steps({3: begun, 12: ran, 14: [unchanged], 16: [last]}), (40, True))
        # Problems that the database knows report an end only.
        known = [{"event": "ran", "spec": name, "limit": 1} for name in "de"]
        self.assertEqual(self.steps({2: known, 3: begun, 12: ran, 14: [unchanged], 150: [last]}), (240, True))

    def test_what_is_never_explored_holds_nothing_up_for_ever(self):
        self.assertEqual(self.steps({3: [{"event": "exploring", "spec": "a", "limit": 1}]}), (310, False))

    def test_without_decisions_it_ends(self):
        self.assertEqual(self.steps({}), (120, True))
        self.assertEqual(self.steps({at: [{"event": "timed"}] for at in range(0, 400, 10)}), (400, False))


class Cache(unittest.TestCase):
    def test_times_of_parts_and_the_choice(self):
        told = {
            "configuration": ["vgg16", "nchw", "half", "off"],
            "policy": "unlimited",
            "kernel": "F half 64x3",
            "round": 1,
        }
        timed = [
            told | {"event": "timed", "batch": b, "time_ms": t} for b, t in ((64, 8.0), (64, 9.0), (32, 3.0), (16, 3.0))
        ]
        ran = told | {
            "event": "ran",
            "parts": [{"count": 2, "batch": 32}],
            "time_ms": 6.4,
            "undivided_ms": 8.0,
            "division": "2x32",
        }
        [[kernel, batch, whole, ratios, division, in_place]] = cache.table_of(
            *cache.kernels_of([*timed, ran], ("vgg16", "nchw", "half"))
        )[1]
        self.assertEqual((batch, whole, ratios, division), (64, 8.0, [1.0, 0.75, 1.5], "2x32"))
        self.assertAlmostEqual(in_place, 0.8)
        self.assertIn("save 1.600 of 8.000 ms", cache.text([*timed, ran]))


class Picture(unittest.TestCase):
    def test_no_texts_overlap(self):
        lines = [
            line(run, mode, 7.5 + 20.0 * number, device_peak=123456 << 20, workspace=98765 << 20)
            for turn in itertools.islice(cells.turns(2, MODES), 10)
            for number, run in enumerate(turn)
            for mode in run.modes
        ]
        self.assertGreater(texts_apart(self, picture.draw(summary.rows(lines))), 100)

    def test_channels_last_is_a_line_at_its_ratio_to_plain(self):
        turn = next(iter(cells.turns(1, ("eager",), ["unet/nchw/half/off/eager/64MiB"])))
        known = [line(run, "eager", {cells.PLAIN: 10.0, "64MiB": 8.0, cells.BESIDE: 6.0}[run.policy]) for run in turn]
        drawn = picture.draw(summary.rows(known))
        [mark] = [words for words in drawn.splitlines() if picture.GREEN in words]
        self.assertIn(f'x1="{picture.at(0.6):.1f}"', mark)
        self.assertIn("10.0 ms plain, 6.0 in channels_last", drawn)
        self.assertIn(">1.333<", drawn)
        known = [found for found in known if found["policy"] != cells.BESIDE]
        self.assertNotIn(picture.GREEN, picture.draw(summary.rows(known)))


class Arguments(unittest.TestCase):
    def test_bad_ones_are_named(self):
        refused(self, table.parse_arguments, [
            (["--out", "x", "--shim", "/no/such.so"], "/no/such.so: no such file"),
            (["--out", "x", "--only", "resnet51/*"], "no cell is like this; there are networks resnet50"),
            (["--out", "x", "--modes", "eager,quick"], "'quick' is no mode; eager, graphs, compile are accepted"),
            (["--out", "x", "--device", "cpu", "--modes", "graphs"], "CUDA graphs need --device cuda"),
            (["--out", "x", "--rounds", "0"], "'0' is not a whole number above 0"),
            (["--out", "x", "--shim", __file__, "--seconds", "-1"], "'-1' is not a number above 0"),
            (["--out", "x", "--seconds", "5"], "takes --shim"),
            ([], "--out"),
        ])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
