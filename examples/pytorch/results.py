"""The results file: a JSON line for each finished cell. A later line for the same cell replaces an earlier one."""

import json
import os

IDENTITY = ("network", "layout", "precision", "benchmark", "mode", "group", "policy", "round")


class Results:
    def __init__(self, path):
        self.path = path
        self.cells = {}
        if path.exists():
            self.cells = {cell_of(line): line for line in whole_lines(path)}

    def add(self, cell, found):
        line = dict(zip(IDENTITY, cell, strict=True)) | found
        append(self.path, [line])
        self.cells[cell] = line

    def missing(self, turn, where, again):
        """The runs of a turn that must still be made here: on this device, with these sizes.

        If a turn began elsewhere, all of it runs again here: ratios compare runs on one device.
        """

        def there(cell, here):
            line = self.cells.get(cell)
            return line is not None and not (again and "failed" in line) and not (here and line["where"] != where)

        begun = [run for run in turn if not all(there(cell, False) for cell in run.cells())]
        return [run for run in turn if not all(there(cell, True) for cell in run.cells())] if begun else []


def cell_of(line):
    return tuple(line[name] for name in IDENTITY)


def append(path, lines):
    """Appends whole lines. If a killed process left the last line unfinished, they begin on a new line."""
    with open(path, "a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write("".join(json.dumps(line) + "\n" for line in lines).encode())


def whole_lines(path):
    """The lines of a file, without lines that a killed process left unfinished."""
    for text in path.read_text().splitlines():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue
