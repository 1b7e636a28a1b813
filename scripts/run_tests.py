"""run_tests.py [--long] [FOLDER:TARGET:FILTER...]: builds the tests and runs each in a process of its own, on all
processors. Prints a line for each test, the whole output of those that fail, and the slowest ten.

FOLDER:TARGET:FILTER is for the tests of one program whose paths contain the filter, such as `.:tests:null::`; TARGET is
`lib`, `bin` or the name of a test target. A filter that matches no test is an error: it would leave its tests out
silently. Without filters all tests run, except for those that are marked `#[ignore]`: of these, the ones whose reason
begins with `long:` run with --long, and then no others do.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOWEST = 10
# The reasons of ignored tests begin with one of these. --long runs the first kind; other tests run the second kind.
LONG = "long:"
REASONS = (LONG, "a part of ")


class Program(typing.NamedTuple):
    """A program of tests: `FOLDER:TARGET`, the package's folder, and the program's file."""

    name: str
    folder: pathlib.Path
    file: str

    def tests(self, long):
        """The names of its tests: those that are not ignored, or the long ones."""
        ignored = self.listed("--ignored")
        if not long:
            return [test for test in self.listed() if test not in ignored]
        # Running ignored tests runs none of them, and prints why.
        said = self.lines("--exact", *ignored) if ignored else []
        found = [re.match(r"test (\S+) \.\.\. ignored, (.*)", line) for line in said]
        reasons = {one[1]: one[2] for one in found if one}
        if unknown := [test for test in ignored if not reasons.get(test, "").startswith(REASONS)]:
            sys.exit(f"run_tests: {self.name}: why are these ignored, {' or '.join(REASONS)}? {' '.join(unknown)}")
        return [test for test in ignored if reasons[test].startswith(LONG)]

    def listed(self, *options):
        lines = self.lines("--list", "--format", "terse", *options)
        return [line.removesuffix(": test") for line in lines if line.endswith(": test")]

    def lines(self, *options):
        return subprocess.run([self.file, *options], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def build():
    """Builds all programs: for one package alone, cargo would compile dependencies anew, with other features."""
    command = [os.environ.get("CARGO", "cargo"), "build", "--workspace", "--locked", "--lib", "--bins", "--tests"]
    command.append("--message-format=json-render-diagnostics")
    # What only a next build would need takes a tenth of the time of a first one.
    environment = {"CARGO_INCREMENTAL": "0"} | os.environ
    built = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    programs = []
    for message in map(json.loads, built.stdout.splitlines()):
        if message["reason"] != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        name, kinds = message["target"]["name"], message["target"]["kind"]
        target = name if "test" in kinds else "bin" if "bin" in kinds else "lib"
        folder = pathlib.Path(message["manifest_path"]).parent
        programs.append(Program(f"{folder.relative_to(ROOT)}:{target}", folder, message["executable"]))
    return programs


def chosen(programs, filters, long):
    """Pairs of a program and a test. The programs with the most tests come first. They have the longest tests, and with
    one of these at the end the other processors would be idle."""
    tests = {program: program.tests(long) for program in programs}
    if not filters:
        ordered = sorted(programs, key=lambda program: -len(tests[program]))
        return [(program, test) for program in ordered for test in tests[program]]
    pairs = {}
    for text in filters:
        folder, target, path = text.split(":", 2)
        matching = [(program, test) for program in programs for test in tests[program]
                    if program.name == f"{folder}:{target}" and path in test]
        if not matching:
            sys.exit(f"run_tests: no test of {folder}:{target} is called {path}")
        pairs |= dict.fromkeys(matching)
    return list(pairs)


class Results:
    """The tests that have ended, out of `count`."""

    def __init__(self, count):
        self.count, self.lock = count, threading.Lock()
        self.seconds, self.failed = {}, []

    def add(self, name, text, status, seconds, used):
        """`used` are the processors' seconds of the test and of all that it has started and waited for."""
        # The harness also succeeds if no test has the name.
        passed = status == 0 and "test result: ok. 1 passed" in text
        with self.lock:
            self.seconds[name] = seconds
            print(f"[{len(self.seconds):{len(str(self.count))}}/{self.count}] {seconds:5.1f} s, {used:5.1f} s used: "
                  f"{'ok' if passed else 'FAILED'} {name}")
            # The harness has begun the line, unless a process that the test has started says so.
            for line in text.splitlines():
                if "SKIPPED " in line:
                    print(line[line.index("SKIPPED "):])
            if not passed:
                self.failed.append(name)
                print(f"{text}\n{name} has failed with status {status}")
            sys.stdout.flush()

    def summary(self, began):
        print(f"\nThe slowest {SLOWEST}:")
        for name, seconds in sorted(self.seconds.items(), key=lambda pair: -pair[1])[:SLOWEST]:
            print(f"  {seconds:5.1f} s {name}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{time.monotonic() - began:.0f} s, and {used.ru_utime + used.ru_stime:.0f} s of processors, in all")
        for name in self.failed:
            print(f"FAILED {name}")
        print(f"test result: {'FAILED' if self.failed else 'ok'}. {self.count - len(self.failed)} passed; "
              f"{len(self.failed)} failed")


def run(results, program, test):
    begin = time.monotonic()
    # One thread: by itself, the harness would start as many as there are processors for one test.
    command = [program.file, "--exact", test, "--include-ignored", "--test-threads=1"]
    # To a file, because waiting for one process's use of the processors leaves nobody to read a pipe.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=program.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    used = usage.ru_utime + usage.ru_stime
    results.add(f"{program.name} {test}", text, process.returncode, time.monotonic() - begin, used)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("filters", nargs="*", metavar="FOLDER:TARGET:FILTER")
    arguments = parser.parse_args()
    began = time.monotonic()
    programs = build()
    print(f"built in {time.monotonic() - began:.0f} s")
    pairs = chosen(programs, arguments.filters, arguments.long)
    if not pairs:
        sys.exit("run_tests: there is no test to run")
    results = Results(len(pairs))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for future in [pool.submit(run, results, *pair) for pair in pairs]:
            future.result()
    results.summary(began)
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
