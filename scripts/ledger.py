"""ledger.py [COMMAND [FILE]]: prints each family of kernels whose code has changed since `make gpu-truth` saw it on a GPU.

docs/verified.toml has a table for each family of kernels/families.rs: the version of its code, the GPU, the date, the
number of cases, and the seeds. `ucudnn kernels` says which versions a build has. COMMAND is that program
[target/release/ucudnn], FILE another one than docs/verified.toml. The notice is no failure: the exit status is 0.
"""

import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

FILE = pathlib.Path(__file__).resolve().parent.parent / "docs/verified.toml"
HEAD = """\
# The kernels whose results were right on a GPU. Only `make gpu-truth` writes this file. A family's version is a hash of
# its kernels, of the code that launches them and, for vertex nets, of the kernels that are made for a fixed set of nets
# (`ucudnn kernels`). `make check`, `make dist` and `make wheel` name each family whose version is another one now.
"""


class Seen(NamedTuple):
    """A family that passed."""

    version: str
    gpu: str
    date: str
    cases: int
    seeds: list[int]


def read(file=FILE):
    """The families that passed, by name. The file has this program's own form: a part of TOML, which Python 3.10 lacks."""
    found, name, values = {}, None, {}
    for number, line in enumerate([*(file.read_text().splitlines() if file.exists() else ()), "[]"], 1):
        line = line.partition("#")[0].strip()
        if header := re.fullmatch(r"\[([\w-]*)\]", line):
            if name:
                found[name] = Seen(**values)
            name, values = header[1], {}
        elif pair := re.fullmatch(r'(\w+) = (?:"([^"]*)"|(\d+)|\[([\d, ]*)\])', line):
            key, text, count, numbers = pair.groups()
            values[key] = text if text is not None else int(count) if count else [int(it) for it in numbers.split(",") if it.strip()]
        elif line:
            sys.exit(f"ledger: {file}:{number}: {line!r} is neither a table nor a value")
    return found


def write(seen, file=FILE):
    """Adds families that passed. Of one that passed before in the same version on the same GPU, cases add up."""
    known = read(file)
    for name, new in seen.items():
        old = known.get(name)
        if old and (old.version, old.gpu) == (new.version, new.gpu):
            new = new._replace(cases=old.cases + new.cases, seeds=[*old.seeds, *(it for it in new.seeds if it not in old.seeds)])
        known[name] = new
    tables = [f'\n[{name}]\nversion = "{its.version}"\ngpu = "{its.gpu}"\ndate = "{its.date}"\ncases = {its.cases}\n'
              f"seeds = [{', '.join(map(str, its.seeds))}]\n" for name, its in sorted(known.items())]  # fmt: skip
    file.write_text(HEAD + "".join(tables))


def versions(command):
    """The version of each family in a build."""
    said = subprocess.run([command, "kernels"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(line.split() for line in said.splitlines())


def notices(versions, seen):
    """A line for each family that was not seen as it is now."""
    for name, version in versions.items():
        its = seen.get(name)
        if its is None:
            yield f"the kernels of {name} were never seen on a GPU by make gpu-truth"
        elif its.version != version:
            yield f"the kernels of {name} have changed since {its.date}, when they were seen on an {its.gpu}: make gpu-truth"


def main():
    defaults = [FILE.parent.parent / "target/release/ucudnn", FILE]
    command, file = (pathlib.Path(path).resolve() for path in [*sys.argv[1:3], *defaults[len(sys.argv) - 1 :]])
    for notice in notices(versions(command), read(file)):
        print(f"notice: {notice}")


if __name__ == "__main__":
    main()
