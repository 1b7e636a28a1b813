"""Unit tests of the sampler (gpu/sampler), of its verdicts, and of gpu/truth.py's table and lines that repeat a case."""

import collections
import contextlib
import io
import math
import pathlib
import sys
import types
import unittest
import unittest.mock

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples"))

from gpu.sampler.draw import SHARED, Draw, cut
from gpu.sampler.families import FAMILIES
from gpu.sampler.verdict import FACTOR, judge

from gpu import truth
from harness.arguments import some_of

SEED, CASES = 5, 300


def line(number, norm, worst=None, **more):
    """A case's line with one tensor of many elements."""
    tensor = {"norm": norm, "worst": norm if worst is None else worst, "at": "call 1", "elements": 1000, "precision": "float",
              "depth": 64, "chain": 1, "goes_by_plain": True}  # fmt: skip
    return {"case": number, "tensors": {"y": tensor}, "different": [], "seconds": 0.1} | more


class Draws(unittest.TestCase):
    def cases(self, name, seed=SEED):
        family = FAMILIES[name]
        return [family.case(name, seed, number) for number in range(CASES)]

    def test_a_number_means_the_same_case_again_and_another_seed_others(self):
        for name in FAMILIES:
            self.assertEqual(self.cases(name), self.cases(name), name)
            same = sum(a == b for a, b in zip(self.cases(name), self.cases(name, SEED + 1), strict=True))
            self.assertLess(same, CASES // 20, name)

    def test_sizes_are_near_limits_and_amid(self):
        draw = Draw(1, "sizes", 1)
        found = collections.Counter(draw.size(512) for _ in range(4000))
        for wanted in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512):
            self.assertGreater(found[wanted], 10, wanted)
        self.assertTrue(min(found) == 1 and max(found) == 512 and len(found) > 200)

    def test_cutting_ends_within_the_limit_or_at_ones(self):
        sizes = cut({"a": 33, "b": 1000}, lambda its: its["a"] * its["b"], 100)
        self.assertLessEqual(sizes["a"] * sizes["b"], 100)
        self.assertEqual(cut({"a": 5}, lambda its: 7, 1), {"a": 1})

    def test_convolutions_have_results_and_cover_their_range(self):
        seen = collections.Counter()
        for name in ("convolution", "convolution-legacy", "transposes"):
            for case in self.cases(name):
                places = zip(case["input"][2:], case["filter"], case["stride"], case["padding"], case["dilation"], strict=True)
                for x, f, s, p, d in places:
                    out = (x - 1) * s - 2 * p + d * (f - 1) + 1 if case["transposed"] else (x + 2 * p - d * (f - 1) - 1) // s + 1
                    self.assertGreaterEqual(out, 1, case)
                self.assertEqual((case["input"][1] % case["groups"], case["channels"] % case["groups"]), (0, 0), case)
                self.assertLessEqual(math.prod(case["input"]), 1 << 25, case)
                seen.update({len(case["filter"]): 1, case["precision"]: 1, case["layout"]: 1, case["way"]: 1,
                             "groups": case["groups"] > 1, "stride": max(case["stride"]) > 1,
                             "dilation": max(case["dilation"]) > 1, "deterministic": case["deterministic"],
                             "transposed": case["transposed"]})  # fmt: skip
        for wanted in (1, 2, 3, "float", "tf32", "half", "bfloat16", "first", "last", "eager", "stream", "captured", "groups",
                       "stride", "dilation", "deterministic", "transposed"):  # fmt: skip
            self.assertGreater(seen[wanted], 10, wanted)

    def test_recurrent_networks_have_lengths_that_fit(self):
        for name in ("rnn", "rnn-training"):
            for case in self.cases(name):
                self.assertEqual(len(case["lengths"]), case["batch"])
                self.assertEqual(max(case["lengths"]), case["steps"])
                if case["layout"] == "packed":
                    self.assertEqual(case["lengths"], sorted(case["lengths"], reverse=True))
        forms = {(case["alive"], case["twice"], case["retain"]) for case in self.cases("rnn-training")}
        self.assertGreater(len(forms), 8)

    def test_graphs_have_children_before_parents_and_batches_of_their_graphs(self):
        hidden, counts, levels = set(), set(), 0
        for case in self.cases("vertex"):
            for graph in case["children"]:
                depth = []
                for vertex, children in enumerate(graph):
                    self.assertTrue(all(-1 <= child < vertex for child in children), graph)
                    depth.append(1 + max((depth[child] for child in children if child >= 0), default=-1))
                levels = max(levels, max(depth))
                if case["kind"] == "n-ary":
                    self.assertTrue(all(len(children) in (0, case["arity"]) for children in graph))
                    self.assertTrue(all(not children or max(children) >= 0 for children in graph))
            for ids in case["batches"]:
                self.assertTrue(ids and all(0 <= id < len(case["children"]) for id in ids))
            hidden.add(case["hidden"])
            counts.add(len(case["children"]))
        self.assertTrue({1, 64, 512} <= hidden and len(hidden) > 30, hidden)
        self.assertTrue(1 in counts and max(counts) > 200 and levels > 50, (counts, levels))

    def test_a_settings_cases_share_a_net_and_other_settings_have_others(self):
        settings = len(FAMILIES["vertex"].settings)
        cases = self.cases("vertex")
        of_setting = cases[0 : SHARED * settings : settings]
        self.assertEqual(len({(case["kind"], case["hidden"], case["input"]) for case in of_setting}), 1)
        self.assertGreater(len({(case["hidden"], case["input"]) for case in cases[:settings]}), 3)


class Verdicts(unittest.TestCase):
    def wrong(self, ours, rival, bits=False, again=False):
        return judge(ours, rival, bits, again)[0]

    def test_an_error_like_plains_is_right_and_one_far_above_is_wrong(self):
        self.assertEqual(self.wrong(line(1, 3e-7), line(1, 1e-7)), [])
        self.assertEqual(len(self.wrong(line(1, 1e-3), line(1, 1e-7))), 2)
        self.assertEqual(len(self.wrong(line(1, 2e-7, worst=1e-3), line(1, 1e-7))), 1)

    def test_rounding_alone_is_right_where_plain_is_exact(self):
        self.assertEqual(self.wrong(line(1, 2e-7), line(1, 0.0)), [])
        self.assertNotEqual(self.wrong(line(1, 1e-5), line(1, 0.0)), [])

    def test_few_numbers_may_cancel(self):
        ours, plain = line(1, 1e-5), line(1, 2e-7)
        self.assertNotEqual(self.wrong(ours, plain), [])
        ours["tensors"]["y"]["elements"] = 1
        self.assertEqual(self.wrong(ours, plain), [])
        self.assertNotEqual(self.wrong(line(1, 1e-2), plain), [])

    def test_tf32_is_wrong_where_the_program_allows_it_and_plain_does_not_take_it(self):
        ours, plain = line(1, 3e-4), line(1, 1e-7)
        ours["tensors"]["y"]["precision"] = "tf32"
        self.assertNotEqual(self.wrong(ours, plain), [])
        self.assertEqual(self.wrong(ours, line(1, 2e-4)), [])
        ours["tensors"]["y"]["goes_by_plain"] = False
        self.assertEqual(self.wrong(ours, plain), [])

    def test_nan_is_wrong_unless_plain_has_it_too(self):
        self.assertNotEqual(self.wrong(line(1, math.inf), line(1, 1e-7)), [])
        self.assertEqual(self.wrong(line(1, math.inf), line(1, math.inf)), [])

    def test_bits_count_where_they_are_promised(self):
        ours = line(1, 1e-7, different=["call 2"])
        self.assertEqual(self.wrong(ours, line(1, 1e-7)), [])
        self.assertEqual(self.wrong(ours, line(1, 1e-7), bits=True), ["other bits: call 2"])
        first, second = line(1, 0.0, digest="a"), line(1, 0.0, digest="b")
        self.assertEqual(self.wrong(first, second, bits=True, again=True), ["other bits in another process"])

    def test_a_failure_is_wrong_unless_plain_fails_too(self):
        failed = {"case": 1, "failed": "no"}
        self.assertEqual(self.wrong(failed, line(1, 0.0)), ["failed: no"])
        self.assertEqual(self.wrong(failed, failed), [])
        self.assertEqual(self.wrong(line(1, 0.0), failed), [])


class Tables(unittest.TestCase):
    def results(self, name):
        options = types.SimpleNamespace(seed=7, device="cpu", case=None, host=True)
        return truth.Results(name, options)

    def test_a_failure_has_a_line_that_repeats_it(self):
        results = self.results("convolution")
        results.add(line(3, 1e-7), line(3, 1e-7))
        results.add(line(4, 1.0), line(4, 1e-7))
        self.assertEqual((results.cases, len(results.wrong)), (2, 1))
        self.assertEqual(results.row()[:2], ["convolution", "2"])
        (words,) = results.lines()
        self.assertTrue(words.startswith("WRONG --family convolution --seed 7 --case 4: y: norm error 1.0e+00"), words)
        self.assertGreater(results.worst[0], FACTOR)

    def test_bits_are_promised_of_ours_by_force_and_of_nets(self):
        ours = line(0, 1e-7, different=["call 2"], ours=1)
        for name, is_promised in (("norm", True), ("group-norm", True), ("vertex", True), ("convolution", False)):
            results = self.results(name)
            results.add(ours, line(0, 1e-7))
            self.assertEqual(len(results.wrong), int(is_promised), name)
        # In the setting that explores, other kernels run.
        results = self.results("norm")
        results.add(ours | {"case": 1}, line(1, 1e-7))
        self.assertEqual(results.wrong, [])

    def test_a_forced_setting_that_never_ran_our_kernels_is_wrong(self):
        results = self.results("norm")
        for number in range(truth.LEAST):
            results.add(line(number, 1e-7, ours=0), line(number, 1e-7))
        results.look_whether_ours_ran()
        self.assertEqual(len(results.wrong), 1)

    def test_only_whole_and_right_samples_are_written_down(self):
        options = types.SimpleNamespace(command="ucudnn", gpu="NVIDIA H200, 580", seed=7, out=pathlib.Path("out"))
        said, run = {}, types.SimpleNamespace(options=options)
        run.results = {name: self.results(name) for name in ("norm", "group-norm", "rnn", "rnn-training", "vertex")}
        for results in run.results.values():
            results.cases = truth.ENOUGH
        run.results["rnn"].wrong.append((1, ["no"]))
        patch = unittest.mock.patch.object
        with patch(truth.ledger, "versions", lambda command: dict.fromkeys(("convolution", "dynamic", "norm", "recurrent"), "a")), \
             patch(truth.ledger, "write", said.update), patch(truth.shutil, "copy"), contextlib.redirect_stdout(io.StringIO()):  # fmt: skip
            truth.Run.write_ledger(run)
        # RNNs were wrong, products and convolutions did not run.
        self.assertEqual(list(said), ["norm"])
        self.assertEqual((said["norm"].gpu, said["norm"].cases, said["norm"].seeds), ("NVIDIA H200", 2 * truth.ENOUGH, [7]))

    def test_words_that_name_no_family_or_case_are_refused(self):
        self.assertEqual((truth.numbers("3"), truth.numbers("3-27")), ((3, 3), (3, 27)))
        for parse, words in ((truth.numbers, "x"), (some_of(FAMILIES, "family"), "norm,rnm")):
            with self.assertRaises(truth.argparse.ArgumentTypeError):
                parse(words)


if __name__ == "__main__":
    unittest.main()
