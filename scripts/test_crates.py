"""Unit tests of how the licences' folder is put in place."""

import pathlib
import tempfile
import threading
import unittest

import crates


class Put(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.into = self.folder / "release/licences"
        self.made = self.folder / "made"
        (self.made / "one-1.0").mkdir(parents=True)
        (self.made / "one-1.0/LICENSE").write_text("licence")
        (self.made / "README").write_text("one")

    def found(self):
        return {str(file): (self.into / file).read_text() for file in crates.files(self.into)}

    def test_what_was_there_before_is_gone(self):
        (self.into / "old-1.0").mkdir(parents=True)
        (self.into / "old-1.0/LICENSE").write_text("old")
        crates.put(self.made, self.into)
        self.assertEqual(self.found(), {"README": "one", "one-1.0/LICENSE": "licence"})
        (self.made / "README").write_text("two")
        crates.put(self.made, self.into)
        self.assertEqual(self.found()["README"], "two")

    def test_a_right_folder_is_left_alone(self):
        crates.put(self.made, self.into)
        before = [(self.into / file).stat().st_ino for file in crates.files(self.into)]
        crates.put(self.made, self.into)
        self.assertEqual([(self.into / file).stat().st_ino for file in crates.files(self.into)], before)

    def test_many_builds_at_once(self):
        failed = []

        def build():
            try:
                crates.put(self.made, self.into)
            except OSError as error:
                failed.append(error)

        for content in map(str, range(20)):
            (self.made / "README").write_text(content)
            threads = [threading.Thread(target=build) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failed, [])
            self.assertEqual(self.found(), {"README": content, "one-1.0/LICENSE": "licence"})
