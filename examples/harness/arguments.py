"""Types of command-line arguments."""

import argparse


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
