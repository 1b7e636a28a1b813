"""Checks of rnn_networks.py that need no GPU and no PyTorch: `python -m unittest` in this folder."""

import contextlib
import io
import unittest
from types import SimpleNamespace
from unittest import mock

import rnn_networks

FASTER = {"step_ms": 1.0, "captured_ms": 0.5, "rnn_ms": 0.25, "peak": 100 << 20, "loss": 2.0, "chosen": ["block", "back"]}
PLAIN = {"step_ms": 5.0, "captured_ms": 2.0, "rnn_ms": 2.0, "peak": 100 << 20, "loss": 2.0, "chosen": None}


def row(name="word-lm/tf32", **ours):
    return rnn_networks.Row(name, PLAIN, FASTER | ours)


def ran(*words, found=None):
    """What a command says, its results and whether all is right; `found` are our lines by case, plain's are PLAIN."""

    def child(script, words, variables):
        names = words[: words.index("--device")]
        lines = dict.fromkeys(names, PLAIN) if not variables else found or {}
        if not set(names) <= set(lines):
            raise rnn_networks.Ended("it ended with 1: no luck")
        return [{"case": name} | lines[name] for name in names]

    options = rnn_networks.parse_arguments(words)
    options.shim = SimpleNamespace(resolve=lambda: "/libucudnn.so")
    out, errors = io.StringIO(), io.StringIO()
    with mock.patch("rnn_networks.child", child), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        results, is_right = rnn_networks.networks(options)
    return out.getvalue() + errors.getvalue(), results, is_right


class RnnNetworks(unittest.TestCase):
    def test_every_network_has_a_floor_in_every_type(self):
        self.assertEqual(len(rnn_networks.cases()), len(rnn_networks.NETWORKS) * len(rnn_networks.PRECISIONS))
        for network, precision in rnn_networks.cases().values():
            self.assertGreaterEqual(network.floors[precision], 1.0)
            self.assertIn(network.program, rnn_networks.PROGRAMS)
            self.assertLess(network.tiny().hidden, network.hidden)
        self.assertEqual(set(rnn_networks.cases("ppo-*/half")), {"ppo-128/half", "ppo-256/half"})

    def test_packed_rows_become_shorter(self):
        [speech] = [network for network in rnn_networks.NETWORKS if network.is_packed]
        self.assertEqual((speech.lengths[0], speech.lengths[-1], len(speech.lengths)), (500, 190, 32))
        for lengths in (speech.lengths, speech.tiny().lengths):
            self.assertEqual(lengths, sorted(lengths, reverse=True))
            self.assertGreater(lengths[-1], 0)

    def test_a_step_has_a_floor(self):
        self.assertEqual(row().verdict, "ok")
        for name, step, is_below in (("word-lm/tf32", 3.8, False), ("word-lm/tf32", 3.9, True), ("speech/half", 1.3, True),
                                     ("ppo-128/half", 5.0, False), ("ppo-128/bfloat16", 5.0, True)):  # fmt: skip
            self.assertEqual(row(name, step_ms=step).verdict, "below its floor" if is_below else "ok", (name, step))
        self.assertEqual(row(step_ms=5.0).below, ["step 1.00 below its floor of 1.3"])

    def test_memory_may_be_a_hundredth_more(self):
        self.assertEqual(row(peak=101 << 20).below, [])
        self.assertEqual(row(peak=102 << 20).below, ["memory 1.020 above 1.01"])

    def test_a_cpu_has_no_floor(self):
        on_cpu = {"step_ms": 1.0, "rnn_ms": 1.0, "loss": 2.0, "chosen": None}
        found = rnn_networks.Row("word-lm/tf32", on_cpu, on_cpu)
        self.assertEqual((found.verdict, found.memory, found.faster("captured_ms")), ("ok", None, None))

    def test_losses_are_plain_s(self):
        for name, off, is_right in (("word-lm/tf32", 9e-4, True), ("word-lm/tf32", 1.1e-3, False), ("word-lm/half", 9e-3, True),
                                    ("word-lm/half", 2e-2, False), ("word-lm/bfloat16", 4e-2, False),
                                    ("word-lm/half", float("nan"), False)):  # fmt: skip
            self.assertEqual(row(name, loss=2.0 * (1 + off)).wrong is None, is_right, (name, off))
        self.assertEqual(row(loss=4.0).verdict, "WRONG")

    def test_words_tell_all(self):
        words = row(not_captured="no graph", chosen=None).words
        for part in ("step 5.000 1.000 ms (5.00)", "captured 2.000 0.500 ms (4.00)", "rnn 2.000 0.250 ms (8.00)",
                     "memory 100.0 100.0 MiB (1.000)", "loss 2.00000 2.00000", "ours is not captured: no graph",
                     "undecided"):  # fmt: skip
            self.assertIn(part, words)

    def test_the_summary_has_a_line_for_each_case(self):
        rows = [row(), row("speech/half", captured_ms=None), rnn_networks.Row("ppo-128/half", PLAIN, None)]
        first, second, third = (line.split() for line in rnn_networks.summary(rows).splitlines()[1:])
        self.assertEqual(first, "word-lm/tf32 5.000 1.000 5.00 2.000 0.500 4.00 2.000 0.250 8.00 1.3 1.000 ok".split())
        self.assertEqual(second[4:7], ["2.000", "–", "–"])
        self.assertEqual(third[-1], "WRONG")

    def test_networks_are_compared_and_a_missed_floor_fails_only_if_asked(self):
        found = {"ppo-256/tf32": FASTER, "ppo-256/half": FASTER, "ppo-256/bfloat16": FASTER | {"step_ms": 4.0}}
        said, results, is_right = ran("--only", "ppo-256/*", found=found)
        self.assertTrue(is_right)
        self.assertIn("below its floor ppo-256/bfloat16: step 1.25 below its floor of 1.5; step 5.000 4.000 ms (1.25)", said)
        self.assertIn("3 programs, 0 wrong, 1 below a floor", said)
        self.assertEqual([bool(result["below"]) for result in results], [False, False, True])
        self.assertEqual(results[0]["faster"], {"step": 5.0, "captured": 4.0, "rnn": 8.0})
        self.assertFalse(ran("--only", "ppo-256/*", "--floors", found=found)[2])
        self.assertFalse(ran("--only", "ppo-256/tf32", found={"ppo-256/tf32": FASTER | {"loss": 3.0}})[2])

    def test_a_network_that_fails_does_not_end_the_others(self):
        said, results, is_right = ran("--only", "ppo-*/tf32", found={"ppo-256/tf32": FASTER})
        self.assertFalse(is_right)
        self.assertIn("WRONG ppo-128/tf32: ours failed", said)
        self.assertIn("ended with 1: no luck", said)
        self.assertEqual([result["wrong"] for result in results], ["ours failed", None])

    def test_ranks_agree_with_plain_s_and_with_each_other(self):
        plain = {"losses": [1.0, 0.5], "ms": 2.0, "alike": True, "chosen": None}
        ours = plain | {"ms": 1.0, "chosen": ["block", "back"]}
        for change, is_right in (({}, True), ({"losses": [1.0, 0.5004]}, True), ({"losses": [1.0, 0.51]}, False),
                                 ({"losses": [float("nan"), 0.5]}, False), ({"alike": False}, False),
                                 ({"chosen": ["cuDNN", "cuDNN"]}, False)):  # fmt: skip
            found = rnn_networks.compare_ranks([plain, plain], [ours, ours | change], True)
            self.assertEqual(found[1], is_right, change)
        words, is_right = rnn_networks.compare_ranks([plain, plain], [plain, plain], False)
        self.assertTrue(is_right)
        self.assertIn("2.000 ms plain, 2.000 ours; losses differ by 0.0e+00; weights are alike; 0 on our kernels", words)


if __name__ == "__main__":
    unittest.main()
