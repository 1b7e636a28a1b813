"""Files of results: a JSON line for each finished measurement. A program that was stopped goes on behind the last."""

import json
import os
import pathlib


class Results:
    """The lines of a file by `key(line)`: a later line for the same key replaces an earlier one."""

    def __init__(self, path, key):
        self.path, self.key = path, key
        self.lines = {key(line): line for line in whole_lines(path)}

    def add(self, line):
        append(self.path, [line])
        self.lines[self.key(line)] = line

    def is_there(self, key, again=False):
        """Whether the file has a line for `key`; a failure does not count if it is to run `again`."""
        return key in self.lines and not (again and "failed" in self.lines[key])

    def missing(self, keys, again=False):
        return [key for key in keys if not self.is_there(key, again)]


def append(path, lines):
    """Appends whole lines. If a killed process left the last line unfinished, they begin on a new line."""
    with open(path, "a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())


def parsed(text):
    """A line that is an object of JSON; None for another, and for one that a killed process left unfinished."""
    try:
        return json.loads(text) if text.startswith("{") else None
    except json.JSONDecodeError:
        return None


def whole_lines(path):
    """The lines of a file, without unfinished ones; none without a file."""
    lines = path.read_text().splitlines() if path.exists() else ()
    return [line for line in map(parsed, lines) if line is not None]


def events(path, *names):
    """The lines of libucudnn.so's report about these events."""
    return [line for line in whole_lines(path) if line.get("event") in names]


class Tail:
    """The lines that a file gets, as libucudnn.so's report does."""

    def __init__(self, path):
        self.path, self.read = path and pathlib.Path(path), 0

    def news(self):
        """The whole lines that came since the last call."""
        if not self.path or not self.path.exists():
            return []
        with open(self.path, "rb") as file:
            file.seek(self.read)
            lines = [line for line in file if line.endswith(b"\n")]
        self.read += sum(map(len, lines))
        return list(map(json.loads, lines))


def decisions(event):
    """What libucudnn.so has decided in this process so far, by its report's event; None without a report."""
    path = os.environ.get("UCUDNN_REPORT")
    return events(pathlib.Path(path), event) if path else None
