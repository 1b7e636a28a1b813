"""Tests that need PyTorch and no GPU: `python -m unittest` in this folder."""

import contextlib
import io
import unittest

try:
    import torch  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest("there is no PyTorch") from error

import volumes


class Lines(unittest.TestCase):
    def test_a_layer_has_its_times_and_small_errors(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            words = ["--device", "cpu", "--side", "4", "--layers", "2", "--types", "float", "--timed", "1"]
            volumes.main([*words, "--calls", "1", "--errors"])
        lines = said.getvalue().splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertTrue(all(f"  {way} " in line for way in ("F", "BD", "BF")), line)
            errors = [float(word) for word in line.split("errors")[1].split()]
            self.assertEqual(len(errors), 3)
            self.assertLess(max(errors), 1e-5)


if __name__ == "__main__":
    unittest.main()
