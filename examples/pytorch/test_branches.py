"""Tests of branches on streams, on the CPU; they need PyTorch: `python -m unittest` in this folder."""

import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import finds_harness  # noqa: F401
import branches
from networks import NETWORKS, Concatenated
from training import initialised


class Branches(unittest.TestCase):
    def test_streams_are_given_to_all_branches_and_never_to_two_that_run_at_once(self):
        model = NETWORKS["inception_v3"].make()
        streams = list(range(branches.STREAMS))
        count = branches.spread(model, streams)
        found = [module for module in model.modules() if isinstance(module, Concatenated)]
        self.assertTrue(found and all(isinstance(module, branches.Concurrent) for module in found))
        self.assertEqual(count, sum(len(module.branches) for module in found))
        inner = 0
        for module in found:
            self.assertEqual(len(set(module.streams)), len(module.branches))
            for within in (other for other in module.modules() if other is not module and other in found):
                self.assertFalse(set(within.streams) & set(module.streams))
                inner += 1
        self.assertEqual(inner, 4)

    def test_names_and_results_stay(self):
        network = NETWORKS["inception_v3"]
        plain, spread = (initialised(network).eval() for _ in range(2))
        branches.spread(spread, branches.streams("cpu"))
        self.assertEqual(list(plain.state_dict()), list(spread.state_dict()))
        x = torch.randn(1, network.channels, *network.places(network.least), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            self.assertTrue(torch.equal(plain(x), spread(x)))


if __name__ == "__main__":
    unittest.main()
