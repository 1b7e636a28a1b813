"""Tests of how the Dockerfile is checked. They run neither docker nor the Dockerfile's steps."""

import pathlib
import tempfile
import unittest

import container

TEXT = (container.ROOT / "Dockerfile").read_text()


def faults(text):
    return list(container.faults(text, container.parse(text)))


class Checks(unittest.TestCase):
    def test_the_dockerfile_is_right(self):
        self.assertEqual(faults(TEXT), [])

    def test_each_fault_is_named(self):
        for old, new, expected in (
            ("debian:12.11-slim", "debian:latest", "FROM debian:latest: an exact tag"),
            ("debian:12.11-slim", "debian", "FROM debian: an exact tag"),
            ("debian:12.11-slim", f"debian@sha256:{'0' * 63}", "FROM debian@sha256:"),
            ("rust:1.95.0", "rust:1.70.0", "FROM rust:1.70.0-slim-bookworm: Cargo.toml requires Rust"),
            ("libglpk-dev", "libglpk-devel", "apt-get install libglpk-devel: scripts/tools.sh names no such package"),
            (" libglpk-dev", "", "stage build: make needs libglpk-dev"),
            ("COPY . .", "COPY example .", "COPY example: no such file"),
            ("COPY . .", "COPY target/release .", "COPY target/release: no such file"),
            ("--from=build", "--from=built", "COPY --from=built: the stages before it"),
            ("RUN make wheel", "RUN make wheel && curl https://some.where", "https:: nothing but"),
        ):
            with self.subTest(new):
                self.assertIn(old, TEXT)
                found = faults(TEXT.replace(old, new))
                self.assertTrue(any(fault.startswith(expected) for fault in found), found)

    def test_a_digest_is_accepted(self):
        self.assertEqual(faults(TEXT.replace("debian:12.11-slim", f"debian:12.11-slim@sha256:{'a' * 64}")), [])

    def test_an_unknown_instruction_is_refused(self):
        with self.assertRaisesRegex(ValueError, "ADD: scripts/container.py knows FROM"):
            container.parse("FROM debian:12.11-slim\nADD a b\n")
        with self.assertRaisesRegex(ValueError, "RUN stands before FROM"):
            container.parse("RUN make\n")

    def test_lines_go_on(self):
        (stage,) = container.parse("# one\nFROM debian:12.11-slim AS one\nRUN a \\\n    # not this\n    && b\nWORKDIR /x\n")
        self.assertEqual((stage.image, stage.name, stage.folder), ("debian:12.11-slim", "one", "/x"))
        self.assertEqual(stage.texts("RUN"), ["a && b"])


class Steps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.said = pathlib.Path(folder.name), []

    def tried(self, text):
        stages = container.parse(text)
        trial = container.Trial(self.folder, self.said.append)
        for stage in stages:
            trial.stage(stage, stage is stages[-1])
        return trial

    def test_files_and_commands(self):
        trial = self.tried(
            "FROM debian:12.11-slim AS build\nWORKDIR /ucudnn\nRUN apt-get update && apt-get install gcc\n"
            "FROM debian:12.11-slim\nWORKDIR /ucudnn\nCOPY README.md Cargo.toml texts/\nCOPY examples/networks networks\n"
            "COPY --from=build /ucudnn/scripts/tools.sh tools/\nENV PLACE=/ucudnn/texts PATH=/ucudnn/bin:$PATH\n"
            'RUN cp "$PLACE/README.md" /ucudnn/copy.md\n'
        )
        last = self.folder / "last"
        for file in ("texts/README.md", "texts/Cargo.toml", "networks/alexnet.csv", "tools/tools.sh", "copy.md"):
            self.assertTrue((last / file).is_file(), file)
        self.assertTrue(trial.environment["PATH"].startswith(f"{last}/bin:"))
        self.assertEqual(len(self.said), 2)
        self.assertRegex(self.said[0], "not run: apt-get update …")

    def test_a_command_that_fails_ends_it(self):
        with self.assertRaisesRegex(SystemExit, "ls nothing: status"):
            self.tried("FROM debian:12.11-slim\nWORKDIR /ucudnn\nRUN ls nothing\n")

    def test_a_target_that_is_not_there_ends_it(self):
        with self.assertRaisesRegex(SystemExit, "make --dry-run nothing"):
            self.tried("FROM debian:12.11-slim\nWORKDIR /ucudnn\nCOPY Makefile Makefile\nRUN make nothing\n")

    def test_what_is_not_built_is_named(self):
        with self.assertRaisesRegex(container.NotBuilt, "target/nothing.so is not built here"):
            self.tried("FROM debian:12.11-slim AS build\nWORKDIR /ucudnn\nFROM debian:12.11-slim\nWORKDIR /ucudnn\n"
                       "COPY --from=build /ucudnn/target/nothing.so lib/\n")  # fmt: skip


if __name__ == "__main__":
    unittest.main()
