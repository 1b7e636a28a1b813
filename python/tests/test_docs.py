"""The Python blocks of README.md and docs/ run as they stand, those of a page one behind the other."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


class Pages(unittest.TestCase):
    def test_their_blocks_run(self):
        ran = []
        for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
            blocks = BLOCK.findall(page.read_text())
            with self.subTest(page.name):
                exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": page.stem})
            ran += [page.name] * len(blocks)
        self.assertGreaterEqual(ran.count("dynamic-nets.md"), 5)
        self.assertIn("README.md", ran)
