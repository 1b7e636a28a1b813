"""chosen_tests.py FOLDER TARGET FILTER...: runs the tests of a package whose paths contain one of the filters.

FOLDER is the package's, and TARGET is `lib`, or the name of a test program. A filter that matches no test is an error:
it would leave its tests out silently.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def program(folder, target):
    """Builds all, as `make test` does: with one package's features, cargo would compile the dependencies anew."""
    build = [os.environ.get("CARGO", "cargo"), "build", "--workspace", "--locked", "--all-targets"]
    build.append("--message-format=json-render-diagnostics")
    lines = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    for message in map(json.loads, lines):
        if message["reason"] != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        name, kinds = message["target"]["name"], message["target"]["kind"]
        is_it = name == target if "test" in kinds else target == "lib" and any("lib" in kind for kind in kinds)
        if is_it and pathlib.Path(message["manifest_path"]).parent == folder:
            return message["executable"]
    sys.exit(f"{folder} has no test program {target}")


def main():
    folder, target, *filters = sys.argv[1:]
    folder = (ROOT / folder).resolve()
    tests = program(folder, target)
    listed = subprocess.run([tests, "--list", "--format", "terse"], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
    for wanted in filters:
        if not any(wanted in name for name in names):
            sys.exit(f"{folder}, {target}: no test is called {wanted}")
    print(f"running {tests} {' '.join(filters)}", flush=True)
    sys.exit(subprocess.run([tests, *filters], cwd=folder).returncode)


if __name__ == "__main__":
    main()
