"""Unit tests of the ledger of what was seen on a GPU."""

import pathlib
import tempfile
import unittest

import ledger
from ledger import Seen


class Ledger(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "verified.toml"

    def test_what_is_written_is_read(self):
        seen = {"norm": Seen("0a1b", "NVIDIA H200", "2026-11-27", 410, [7]), "dynamic": Seen("ff", "NVIDIA H100 80GB HBM3", "2026-11-28", 9, [1, 2])}
        ledger.write(seen, self.file)
        self.assertEqual(ledger.read(self.file), seen)
        self.assertTrue(self.file.read_text().startswith(ledger.HEAD))

    def test_runs_of_one_version_on_one_gpu_add_up_and_another_version_begins_anew(self):
        ledger.write({"norm": Seen("a", "NVIDIA H200", "2026-11-27", 100, [7])}, self.file)
        ledger.write({"norm": Seen("a", "NVIDIA H200", "2026-11-28", 50, [8])}, self.file)
        self.assertEqual(ledger.read(self.file)["norm"], Seen("a", "NVIDIA H200", "2026-11-28", 150, [7, 8]))
        ledger.write({"norm": Seen("b", "NVIDIA H200", "2026-11-29", 60, [9])}, self.file)
        self.assertEqual(ledger.read(self.file)["norm"], Seen("b", "NVIDIA H200", "2026-11-29", 60, [9]))

    def test_families_that_changed_or_were_never_seen_are_named(self):
        seen = {"norm": Seen("a", "NVIDIA H200", "2026-11-27", 100, [7]), "recurrent": Seen("b", "NVIDIA H200", "2026-11-27", 100, [7])}
        notices = list(ledger.notices({"norm": "a", "recurrent": "c", "dynamic": "d"}, seen))
        self.assertEqual(len(notices), 2)
        self.assertIn("recurrent have changed since 2026-11-27, when they were seen on an NVIDIA H200", notices[0])
        self.assertIn("dynamic were never seen", notices[1])

    def test_the_repositorys_file_is_readable_and_of_the_known_families(self):
        self.assertLessEqual(ledger.read().keys(), {"convolution", "dynamic", "norm", "recurrent"})
        self.assertTrue(ledger.FILE.read_text().startswith(ledger.HEAD))

    def test_a_line_of_another_form_is_refused(self):
        self.file.write_text("[norm]\nversion: a\n")
        with self.assertRaises(SystemExit) as refused:
            ledger.read(self.file)
        self.assertIn("verified.toml:2: 'version: a'", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
