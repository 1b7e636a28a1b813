"""Shows how far a long program is: a bar on a terminal, else a line for each step."""

import shutil

BAR = 24


class Progress:
    """Of a program with `whole` units of work. `file` shows it."""

    def __init__(self, name, whole, file):
        self.name, self.whole, self.file = name, whole, file
        self.done, self.drawn = 0, ""

    def step(self, text, work):
        """Says that `text` begins, which is `work` units long. The step before is over."""
        share = min(self.done / self.whole, 1)
        self.done += work
        if not self.file.isatty():
            print(f"{self.name}: {share:4.0%} {text}", file=self.file, flush=True)
            return
        full = round(BAR * share)
        line = f"{self.name}: {'#' * full}{'.' * (BAR - full)} {share:4.0%} {text}"
        # A line that wraps could not be drawn over.
        self.draw(line[: shutil.get_terminal_size().columns - 1])

    def say(self, text):
        """Shows a whole line, above the bar."""
        kept, before = self.drawn, self.drawn and "\r\x1b[K"
        print(f"{before}{text}", file=self.file, flush=True)
        if kept:
            self.draw(kept)

    def draw(self, line):
        print(f"\r\x1b[K{line}", end="", file=self.file, flush=True)
        self.drawn = line

    def close(self):
        if self.drawn:
            self.draw("")
