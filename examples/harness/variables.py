"""The environment of a measured program: without the library, and under it."""

import os

# What a user's environment has of the library, and every run sets or leaves out itself.
OWN = ("LD_PRELOAD", "UCUDNN_REPORT")


def plain(*more):
    """The user's environment without the library, and without these variables."""
    return {name: value for name, value in os.environ.items() if name not in (*OWN, *more)}


def preloaded(library, report=None, **variables):
    """The variables of a run under the library, which may write a report, and others for it."""
    found = {"LD_PRELOAD": str(library.resolve())}
    return found | ({"UCUDNN_REPORT": str(report)} if report else {}) | variables


def compared(folder, name):
    """The variables of runs whose settled times are compared. The user's own come first."""
    ours = {"UCUDNN_DATABASE": str(folder / f"{name}.sqlite"), "UCUDNN_EXPLORE": "unbounded"}
    return {variable: os.environ.get(variable, value) for variable, value in ours.items()}


def fresh(database):
    """The path of a database, without results of earlier runs. Compiled kernels, in a folder beside it, stay."""
    for old in database.parent.glob(f"{database.name}*"):
        if old.is_file():
            old.unlink()
    return database
