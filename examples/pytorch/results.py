"""The results file: a JSON line for each finished cell."""

from harness import results

IDENTITY = ("network", "layout", "precision", "benchmark", "mode", "group", "policy", "round")


class Results(results.Results):
    def __init__(self, path):
        super().__init__(path, lambda line: tuple(line[name] for name in IDENTITY))

    def add(self, cell, found):
        super().add(dict(zip(IDENTITY, cell, strict=True)) | found)

    def missing(self, turn, where, again):
        """The runs of a turn that must still be made here: on this device, with these sizes.

        If a turn began elsewhere, all of it runs again here: ratios compare runs on one device.
        """

        def there(cell, here):
            return self.is_there(cell, again) and (not here or self.lines[cell]["where"] == where)

        begun = [run for run in turn if not all(there(cell, False) for cell in run.cells())]
        return [run for run in turn if not all(there(cell, True) for cell in run.cells())] if begun else []
