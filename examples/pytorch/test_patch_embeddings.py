"""Tests that need PyTorch and no GPU: `python -m unittest` in this folder."""

import contextlib
import io
import unittest

try:
    import torch  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest("there is no PyTorch") from error

import patch_embeddings


class Lines(unittest.TestCase):
    def test_an_embedding_has_its_times_and_small_errors(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            words = ["--device", "cpu", "--batch", "2", "--calls", "1", "--only", "2x14x14 patches,16x16 of images"]
            patch_embeddings.main([*words, "--types", "float"])
        patches, images = sorted(said.getvalue().splitlines(), key=lambda line: "errors" not in line)
        self.assertIn("product", images)
        self.assertNotIn("errors", images)
        errors = [float(word) for word in patches.split("errors")[1].split()]
        self.assertEqual(len(errors), 3)
        self.assertLess(max(errors), 1e-5)


if __name__ == "__main__":
    unittest.main()
