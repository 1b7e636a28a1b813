"""Types of command-line arguments, and the arguments that several programs have."""

import argparse
import pathlib
from fnmatch import fnmatchcase


def above_zero(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def count(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def some_of(names, kind):
    """The type of a list of such names with commas between them. `kind` says what a name is of."""

    def chosen(text):
        for name in text.split(","):
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name!r} is no {kind}; {', '.join(names)} are accepted")
        return text.split(",")

    return chosen


def is_like(name, patterns):
    """Whether a name matches a pattern, with * and ?; each does if there are none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


SHARED = {
    "shim": dict(type=pathlib.Path, help="libucudnn.so; without it plain runs alone"),
    "out": dict(type=pathlib.Path, required=True, help="folder of the results"),
    "seconds": dict(type=above_zero, help="what all this may take [as long as it takes]"),
    "processes": dict(type=count, default=1, metavar="N", help="processes of each kind that take turns [%(default)s]"),
    "only": dict(action="append", default=[], metavar="PATTERN"),
    "again": dict(action="store_true", help="run again what has failed"),
    "list": dict(action="store_true", help="say what would be run, in order, and run nothing"),
    "device": dict(default="cuda", choices=["cuda", "cpu"], help="a CPU is for trying the script"),
    "json": dict(type=pathlib.Path, metavar="FILE", help="a file for the results as JSON"),
    "report": dict(type=pathlib.Path, help="a file for the report of libucudnn.so (UCUDNN_REPORT)"),
}  # fmt: skip


def add(parser, *names, known=SHARED, **changes):
    """Adds arguments that are `known`. `changes` are more of them, and what they have otherwise."""
    for name in (*names, *changes):
        parser.add_argument(f"--{name}", **known[name] | changes.get(name, {}))


def check_files(parser, options, *names):
    """Ends the program if an argument names a file that is not there."""
    for name in names:
        path = getattr(options, name)
        if path and not path.is_file():
            parser.error(f"--{name} {path}: no such file")
