"""RNN inference by torch.nn.LSTM, GRU and RNN, plain and under libucudnn.so: runs what is still missing, then the table.

    python examples/pytorch/rnn.py --shim target/release/libucudnn.so --out build/rnn --seconds 300

OUT then holds rnn.jsonl (a line for each case and kind of run; finished lines are not run again), rnn.txt, rnn.csv,
rnn-report.jsonl and rnn.sqlite (libucudnn.so's choices, and its database). The most telling cases come first, a few at
a time. Each kind of run is its own process: plain; `auto`, which is timed once it has settled; and `force`
(UCUDNN_RNN=force), which shows the errors of our kernels even if cuDNN is faster.

Times are milliseconds a call, eager and replayed as a CUDA graph. An error is the worst of ||y - y64|| / ||y64|| of the
output and of the last states, against float64 on the CPU. Ours may be at most twice plain's in float, and 1.5 times
plain's in the other types; a case above is marked, and the command fails.

`text` and `char` are the networks of GRNN's paper: text classification (2 LSTM layers, 256 units, 20 steps) and a
character model (3 layers, 128 units, 100 steps). `layouts` are small networks of every cell, type, direction and
layout. `grid` has 100 steps, and inputs as wide as the hidden state.
"""

import argparse
import csv
import itertools
import json
import sys
from dataclasses import astuple, dataclass, fields

import finds_harness  # noqa: F401
from harness import arguments, variables
from harness import results as files
from harness.children import Child, python
from harness.columns import aligned, number
from harness.continued import Continued, print_list
from harness.results import decisions
from harness.rounds import in_turn

CELLS = ("lstm", "gru", "tanh", "relu")
PRECISIONS = ("float", "half", "tf32", "bfloat16")
LAYOUTS = ("seq", "batch", "packed")
SIZES = (256, 1024, 64, 512, 128, 1536)
BATCHES = (1, 10, 20, 4, 32, 64)
ALL_KINDS = ("plain", "auto", "force")
KINDS = {"text": ALL_KINDS, "char": ALL_KINDS, "layouts": ("plain", "force"), "grid": ("plain", "auto")}
# The most units × rows × layers × directions to compare with float64: larger networks take long on the CPU.
MOST_CHECKED = 20 * 1024
# Seconds that the library may take to settle, and the calls that warm up a network before it is timed.
SETTLE, WARM_UP = 15, 5
# Cases in a process: each process takes some seconds to begin.
CHUNK = 24
# The most that our error may be, in times plain's error.
ALLOWED = {"float": 2.0}
ALLOWED_OTHERS = 1.5


@dataclass(frozen=True)
class Case:
    network: str
    cell: str
    precision: str
    layers: int
    hidden: int
    batch: int
    steps: int
    directions: int
    layout: str
    # A deviation from the usual: "states" (given, not zero), "no bias", "projection", "projected states", "unsorted"
    # (lengths), "one step", "dropout", "projected dropout".
    extra: str = ""

    @property
    def name(self):
        sizes = f"L{self.layers} H{self.hidden} B{self.batch} T{self.steps} D{self.directions}"
        words = (self.network, self.cell, self.precision, sizes, self.layout, self.extra)
        return "/".join(word for word in words if word)


def cases():
    """The cases, the most telling first, each once."""
    found = [Case(network, "lstm", precision, layers, hidden, batch, steps, 1, "seq")
             for batch, precision in itertools.product((1, 4, 10, 20), ("float", "half"))
             for network, layers, hidden, steps in (("text", 2, 256, 20), ("char", 3, 128, 100))]  # fmt: skip
    for precisions in (PRECISIONS[:2], PRECISIONS[2:]):
        axes = (precisions, CELLS, LAYOUTS, (1, 2))
        found += [Case("layouts", cell, precision, 2, 72, 5, 23, directions, layout)
                  for precision, cell, layout, directions in itertools.product(*axes)]  # fmt: skip
        for precision, cell in itertools.product(precisions, CELLS):
            for extra in ("states", "no bias", "one step", "dropout", *(("projection",) if cell == "lstm" else ())):
                steps = 1 if extra == "one step" else 23
                found.append(Case("layouts", cell, precision, 2, 72, 5, steps, 2, "seq", extra))
            found.append(Case("layouts", cell, precision, 2, 72, 5, 23, 2, "packed", "unsorted"))
            # With odd sizes nothing is aligned to more than an element.
            found.append(Case("layouts", cell, precision, 3, 37, 3, 11, 2, "seq", "states"))
    found += [Case("grid", "lstm", precision, 1, hidden, batch, 100, 1, "seq")
              for precision, hidden, batch in itertools.product(PRECISIONS[:2], SIZES[:4], BATCHES[:3])]  # fmt: skip
    found += [Case("grid", cell, precision, 1, hidden, batch, 100, 1, "seq")
              for cell, precision in itertools.product(CELLS[1:], PRECISIONS[:2])
              for hidden, batch in itertools.product(SIZES[:3], BATCHES[:2])]  # fmt: skip
    found += [Case("grid", cell, precision, 1, hidden, batch, 100, 1, "seq")
              for cell, precision, hidden, batch in itertools.product(CELLS[:2], PRECISIONS, SIZES, BATCHES)]  # fmt: skip
    return list(dict.fromkeys(found))


def measure(case, device, is_timed, settle):
    """Times and errors of one case, from its own seed. `settle(run)` calls `run` until the library has decided."""
    import torch

    from harness import calls
    from recurrent import Program, timed

    program = Program(case, is_training=False)
    model, x, states = program.leaves(device=device)
    found = {}
    with torch.inference_mode():
        given = program.packed(x)
        run = lambda: program.results(model, given, states)  # noqa: E731
        first = run()
        settle(run)
        last = run()
        if case.hidden * case.batch * case.layers * case.directions <= MOST_CHECKED:
            expected = program.forward(*program.leaves(dtype=torch.double))
            found |= {"first_error": calls.worst(first, expected), "error": calls.worst(last, expected)}
        if is_timed:
            found["eager_ms"] = timed(run, device)
        # Packed sequences copy their lengths from the host, which a capture does not allow.
        if is_timed and device == "cuda" and case.layout != "packed":
            graph, result = calls.captured(run, 0)
            found["graph_ms"] = timed(graph.replay, device)
            if "error" in found:
                found["graph_error"] = calls.worst(result, expected)
    return found


class Settling:
    """Runs a network until libucudnn.so has reported what it chose for it."""

    def __init__(self):
        self.seen = set()

    def of(self, case, device):
        """The `settle` of `measure` for a case; call this before the network has run."""
        from recurrent import until_decided

        # PyTorch transposes batch-first data, and its dropout is off in eval mode: cuDNN sees an ordinary network.
        like = (*astuple(case)[1:-2], case.layout == "packed", case.extra in ("no bias", "projection") and case.extra)
        waits = device == "cuda" and like not in self.seen
        self.seen.add(like)
        before = decisions("rnn") if waits else None

        def settle(run):
            until_decided("rnn", before, run, SETTLE, at_once=1)
            for _ in range(WARM_UP):
                run()

        return settle


def child(options):
    """Measures the cases named on standard input, and prints a line of JSON for each."""
    settling = Settling()
    for line in sys.stdin:
        case = Case(*json.loads(line))
        try:
            settle = settling.of(case, options.device)
            found = measure(case, options.device, options.child != "force", settle)
        except RuntimeError as error:
            found = {"failed": str(error).splitlines()[0]}
        print(json.dumps({"case": astuple(case), "kind": options.child, **found}), flush=True)


class Results(files.Results):
    """A line for each case and kind of run."""

    def __init__(self, path):
        super().__init__(path, lambda line: (Case(*line["case"]), line["kind"]))

    def missing(self, wanted, kind):
        return [case for case in wanted if kind in KINDS[case.network] and not self.is_there((case, kind))]


class Runner(Continued):
    """Runs chunk by chunk, every kind of run on a chunk before the next chunk."""

    name, what = "rnn", "runs"

    def run_all(self):
        wanted = self.options.wanted
        to_go = self.to_go()
        self.say_begin(sum(kind in KINDS[case.network] for case in wanted for kind in ALL_KINDS) - to_go, to_go)
        for number, begin in enumerate(range(0, len(wanted), CHUNK)):
            for kind in in_turn(ALL_KINDS, number):
                waiting = self.results.missing(wanted[begin : begin + CHUNK], kind)
                while waiting and self.left() > 0:
                    waiting = self.run(waiting, kind)
        self.say_end(self.to_go())

    def to_go(self):
        return sum(len(self.results.missing(self.options.wanted, kind)) for kind in ALL_KINDS)

    def run(self, waiting, kind):
        """Runs cases in a process. Returns those that are left."""
        out, environment = self.options.out, variables.plain()
        if kind != "plain":
            environment |= variables.preloaded(self.options.shim, out / "rnn-report.jsonl", UCUDNN_RNN=kind,
                                               **variables.compared(out, "rnn"))  # fmt: skip
        if kind == "force":
            environment["UCUDNN_RNN_TOP_K"] = "1"
        command = python(__file__, "--child", kind, "--device", self.options.device)
        given = "".join(json.dumps(astuple(case)) + "\n" for case in waiting)
        child = Child(command, environment, out / f"rnn-{kind}.log", given=given)

        def fail(case, why):
            self.say(f"{kind}: {case.name}: FAILED: {why}")
            self.results.add({"case": astuple(case), "kind": kind, "failed": why})

        return self.one_by_one(child, waiting, lambda _, line: self.results.add(line), fail)


VALUES = ("eager_ms", "graph_ms", "error", "first_error", "graph_error", "failed")
ERRORS = ("error", "first_error", "graph_error")


class Row:
    """The results of a case, by kind of run."""

    def __init__(self, case, results):
        self.case = case
        self.found = {kind: results.lines.get((case, kind)) for kind in ALL_KINDS}

    def value(self, kind, name):
        return (self.found[kind] or {}).get(name)

    @property
    def failed(self):
        return {kind: why for kind in self.found if (why := self.value(kind, "failed"))}

    @property
    def errors(self):
        """The library's errors, for all kinds and ways of running."""
        values = [self.value(kind, name) for kind in ("auto", "force") for name in ERRORS]
        return [value for value in values if value is not None]

    @property
    def is_wrong(self):
        """Whether our error is too large, or ours fails and plain does not."""
        if self.failed:
            return "plain" not in self.failed
        plain = self.value("plain", "error")
        allowed = ALLOWED.get(self.case.precision, ALLOWED_OTHERS)
        return plain is not None and any(not error <= allowed * plain for error in self.errors)


def faster(row, name):
    before, after = row.value("plain", name), row.value("auto", name)
    if before is None or after is None:
        return [number(before, ".3f"), number(after, ".3f"), "–"]
    return [f"{before:.3f}", f"{after:.3f}", f"{before / after:.2f}"]


def table(rows):
    header = ["", "eager ms", "ours", "faster", "graph ms", "ours", "faster", "error", "ours: worst", "times plain's"]
    lines = [header]
    for row in rows:
        name = row.case.name + (" !" if row.is_wrong else "")
        if row.failed:
            lines.append([f"{name}  " + "; ".join(f"{kind} failed: {why}" for kind, why in row.failed.items())])
            continue
        plain, ours = row.value("plain", "error"), max(row.errors, default=None)
        ratio = ours / plain if plain and ours is not None else None
        lines.append([name, *faster(row, "eager_ms"), *faster(row, "graph_ms"), number(plain, ".1e"),
                      number(ours, ".1e"), number(ratio, ".2f")])  # fmt: skip
    return aligned(lines)


def write(out, rows):
    """Prints and writes the table; returns the number of wrong cases."""
    with open(out / "rnn.csv", "w", newline="") as file:
        writer = csv.writer(file)
        found = [(kind, value) for value in VALUES for kind in ALL_KINDS]
        writer.writerow([*(field.name for field in fields(Case)), *(f"{kind} {value}" for kind, value in found)])
        for row in rows:
            writer.writerow([*astuple(row.case), *(row.value(kind, value) for kind, value in found)])
    wrong = [row.case.name for row in rows if row.is_wrong]
    compared = sum(row.value("plain", "error") is not None and bool(row.errors) for row in rows)
    told = f"{len(rows)} cases, {compared} compared with float64, {len(wrong)} wrong"
    told += "".join(": " + name for name in wrong)
    text = "\n".join([__doc__.split("\n\n")[3], "", *table(rows), "", told]) + "\n"
    (out / "rnn.txt").write_text(text)
    print(text, end="")
    return len(wrong)


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add(parser, "device", "list", shim={"help": "libucudnn.so; without it what is there is shown"},
                  out={"required": False}, seconds={"default": 300, "help": "what all this may take [300]"},
                  only={"help": "only cases with such a name, with * and ?, as 'layouts/gru/*'; may be given several "
                        "times"})  # fmt: skip
    parser.add_argument("--child", choices=ALL_KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.wanted = [case for case in cases() if arguments.is_like(case.name, options.only)]
    if options.child or options.list:
        return options
    if not options.out:
        parser.error("--out is needed")
    arguments.check_files(parser, options, "shim")
    if not options.wanted:
        parser.error(f"--only {' '.join(options.only)}: no case is like this; --list names them")
    return options


def main():
    options = parse_arguments()
    if options.child:
        return child(options)
    if options.list:
        return print_list(case.name for case in options.wanted)
    options.out.mkdir(parents=True, exist_ok=True)
    options.out = options.out.resolve()
    results = Results(options.out / "rnn.jsonl")
    if options.shim:
        Runner(options, results).run_until_stopped()
    rows = [Row(case, results) for case in options.wanted if (case, "plain") in results.lines]
    return 1 if write(options.out, [row for row in rows if row.found["auto"] or row.found["force"]]) else 0


if __name__ == "__main__":
    sys.exit(main())
