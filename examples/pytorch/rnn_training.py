"""Training of torch.nn.LSTM, GRU and RNN, plain and under libucudnn.so (UCUDNN_RNN_TRAINING=force): errors of gradients.

    python examples/pytorch/rnn_training.py --shim target/release/libucudnn.so

An error is the worst of ||g - g64|| / ||g64|| of the output, the last states, and the gradients of the input, of the
first states and of each weight, against float64 on the CPU. Ours may be at most 1.5 times plain's, or 8 units of the
type's last digit above it. With dropout, losses of 20 training steps are compared instead, which need equal masks. Then
programs of other forms: retain_graph, save_on_cpu, checkpoint, no_grad, autocast, and a captured step.

It prints a line for each case, and fails if one is above. Without --shim it runs plain alone. Instead of that,

--times       prints times with UCUDNN_RNN_TRAINING=auto once that has chosen: of forward, and of forward and backward,
              replayed as a CUDA graph, and eager. A time is the median of --processes of each kind, which take turns.
              The host's time scatters. So layers whose eager step takes as long as the host needs for it, and is near
              plain's, are visited again, at other moments: of these, each process gives the least time of its visits
--repeats N   makes the same pass N times on our kernels, and fails if any bit of a result or gradient differs
--first-steps prints what the first 100 steps of a new network take with `auto`, from an empty database, in new
              processes; it fails if that is more than 1.05 times plain's

UCUDNN_DATABASE and UCUDNN_EXPLORE hold where they are set, but not for --first-steps.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
from collections import Counter
from fnmatch import fnmatchcase

import finds_harness  # noqa: F401
from harness import arguments, turns, variables
from harness.budget import Budget
from harness.children import Ended, lines_of, python
from harness.results import decisions, events
from harness.rounds import in_turns
from rnn import CELLS, LAYOUTS, PRECISIONS, Case

# The most that our error may be, in times plain's; and the units that it may be above.
ALLOWED, UNITS = 1.5, 8
UNIT = {"float": 2**-24, "tf32": 2**-11, "half": 2**-11, "bfloat16": 2**-8}
# Passes before the one that is looked at: until then cuDNN may run.
WARM_UP = 4
# The seconds that a process may take until it has settled, in its turn: kernels are compiled before.
IN_TURN = 20
# The host determines a layer's eager step if it is busy for at least this part of the step. Each process visits such a layer
# this many times, unless our step is NEAR times as fast as plain's or more.
HOST_PART, NEAR, VISITS = 0.8, 1.25, 6
# How a layer's step is timed.
WAYS = ("forward", "captured", "eager")
# The layers whose steps are timed, and the time steps of their sequences.
HIDDEN, BATCHES, LENGTH = (128, 256, 512, 1024), (8, 32, 64, 128, 256), 100
# Likewise of LSTMs with a projection: H, B, and further options of PyTorch's. In float without TF32 cuDNN runs them.
PROJECTED = {
    "H1024 P256 B32": (1024, 32, {"proj_size": 256}),
    "H512 P128 B32": (512, 32, {"proj_size": 128}),
    "H512 P128 B32 L2 D2": (512, 32, {"proj_size": 128, "num_layers": 2, "bidirectional": True}),
    "H512 P256 B64": (512, 64, {"proj_size": 256}),
}
OF_PROJECTED = ("half", "bfloat16", "tf32")
FORMS = ("retain_graph", "save_on_cpu", "checkpoint", "no_grad", "autocast", "captured")
# The layers whose first steps are timed, how many, in how many processes each, and the most that they may take, in
# times plain's.
FIRST = ("lstm/bfloat16/H256 B32", "lstm/tf32/H512 B64", "gru/half/H512 B64")
STEPS, ROUNDS, MOST_FIRST = 100, 3, 1.05
# The model's first choice runs at once, and nothing else.
FORCED = {"UCUDNN_RNN_TRAINING": "force", "UCUDNN_RNN_TOP_K": "1"}


def cases():
    """The cases whose gradients are compared with float64."""
    axes = (PRECISIONS, CELLS, LAYOUTS, (1, 2))
    found = [Case("small", cell, precision, 2, 72, 5, 23, directions, layout)
             for precision, cell, layout, directions in itertools.product(*axes)]  # fmt: skip
    for precision, cell in itertools.product(PRECISIONS, CELLS):
        for extra in ("states", "no bias", "one step"):
            found.append(Case("small", cell, precision, 2, 72, 5, 1 if extra == "one step" else 23, 2, "seq", extra))
        for hidden, batch, steps in ((200, 33, 11), (1024, 9, 7)):
            found.append(Case("small", cell, precision, 1, hidden, batch, steps, 1, "packed", "unsorted"))
    for precision in OF_PROJECTED:
        for layout, extra in itertools.product(LAYOUTS, ("projection", "projected states")):
            found.append(Case("small", "lstm", precision, 2, 72, 5, 23, 2, layout, extra))
        found.append(Case("small", "lstm", precision, 1, 200, 33, 11, 1, "packed", "projection"))
        found.append(Case("large", "lstm", precision, 1, 1024, 32, 100, 1, "seq", "projection"))
        # Rows of H = 1,150 are no whole vectors: large products run on copies.
        found.append(Case("large", "lstm", precision, 2, 1150, 32, 30, 1, "seq"))
    # ReLU's gradient jumps at 0, where numbers of few digits fall on either side.
    return [case for case in found if case.cell != "relu" or case.precision == "float"]


def dropout_cases():
    axes = (("float", "half", "bfloat16"), ("lstm", "gru"), ("seq", "packed"), (1, 2))
    found = [Case("small", cell, precision, 3, 72, 5, 23, directions, layout, "dropout")
             for precision, cell, layout, directions in itertools.product(*axes)]  # fmt: skip
    return found + [Case("small", "lstm", precision, 3, 72, 5, 23, directions, "seq", "projected dropout")
                    for precision, directions in itertools.product(OF_PROJECTED, axes[-1])]  # fmt: skip


def repeated_cases():
    """The cases whose passes are repeated. Dropout is off: with it each pass has a mask of its own."""
    found = [("lstm", "float", 1, 256, 32, 50, 1, "seq"), ("gru", "float", 1, 128, 64, 50, 1, "batch"),
             ("lstm", "tf32", 2, 256, 32, 50, 1, "seq"), ("gru", "tf32", 1, 512, 16, 50, 1, "seq"),
             ("lstm", "half", 1, 320, 16, 50, 1, "packed"), ("gru", "half", 1, 256, 64, 50, 1, "seq"),
             ("lstm", "bfloat16", 1, 1024, 32, 20, 1, "seq"), ("gru", "bfloat16", 1, 256, 16, 50, 2, "seq")]  # fmt: skip
    return [Case("repeated", *its) for its in found]


def among(cases, device, only):
    """Those cases that run on the device, and are like the pattern."""
    # PyTorch's CPU has no LSTM in types of 2 bytes.
    return [case for case in cases if fnmatchcase(case.name, only) and (device == "cuda" or case.precision == "float")]


def chosen_since(before):
    """What libucudnn.so has chosen last, forward and backward, if it has chosen since these decisions."""
    now = decisions("rnn-training")
    return [now[-1]["forward"], now[-1]["backward"]] if now and len(now) > len(before) else None


def layers(only="*"):
    """The layers whose steps are timed: cell, precision, H, B and further options, by name."""
    axes = itertools.product(HIDDEN, BATCHES, CELLS[:2], PRECISIONS)
    named = {f"{cell}/{precision}/H{hidden} B{batch}": (cell, precision, hidden, batch, {})
             for hidden, batch, cell, precision in axes}  # fmt: skip
    named |= {f"projected/{precision}/{name}": ("lstm", precision, *its)
              for precision, (name, its) in itertools.product(OF_PROJECTED, PROJECTED.items())}  # fmt: skip
    return {name: its for name, its in named.items() if fnmatchcase(name, only)}


def child(script, words, more):
    """The lines of a script in a process of its own."""
    return lines_of(python(script, "--run", *words), os.environ | more)


def preloaded(options, **more):
    """The variables of a run under libucudnn.so."""
    database = os.environ.get("UCUDNN_DATABASE", "off")
    return variables.preloaded(options.shim, options.report, **{"UCUDNN_DATABASE": database} | more)


def compare(plain, ours):
    """The result of a case in words, and whether it is as it should be."""
    if "error" in plain:
        ratio = ours["error"] / plain["error"] if plain["error"] else 1.0
        most = max(ALLOWED * plain["error"], plain["error"] + UNITS * UNIT[plain["precision"]])
        return f"error {plain['error']:.2e} plain, {ours['error']:.2e} ours, {ratio:.2f}", ours["error"] <= most
    if "times" in plain:
        pairs = ((way, time, ours["times"][way]) for way, time in plain["times"].items())
        times = "; ".join(f"{way} {a:.3f} {b:.3f} {b / a:.2f}" for way, a, b in pairs)
        words = f"plain, ours, ratio in ms: {times}; {', '.join(ours.get('chosen') or ['undecided'])}"
        if ours.get("visits", 1) > 1:
            a, b = plain["usual"]["eager"], ours["usual"]["eager"]
            words += f"; the least of {ours['visits']} visits, whose median is {a:.3f} {b:.3f} {b / a:.2f}"
        # Each kernel that was tried gave gradients to within rounding of the first step's, which are cuDNN's.
        off, most = ours["off"], max(1e-4, 32 * UNIT[plain["case"].split("/")[1]])
        return f"{words}; off by {off:.1e}", off <= most
    if "losses" in plain:
        pairs = zip(plain["losses"], ours["losses"], strict=True)
        off = max(abs(a - b) / max(abs(a), 1e-3) for a, b in pairs)
        return f"losses differ by {off:.1e}", off <= (1e-3 if "/float/" in plain["case"] else 3e-2)
    most = 1e-2 if plain["case"] == "autocast" else 1e-5
    words = f"differs from a plain pass by {plain['difference']:.1e} plain, {ours['difference']:.1e} ours"
    return words, ours["difference"] <= max(most, 1.5 * plain["difference"])


def compare_repeats(found, is_forced):
    """The result of repeated passes in words, and whether it is as it should be."""
    words = f"{found['different']} of {found['passes']} passes differ; {', '.join(found['chosen'] or ['nothing chosen'])}"
    return words, found["different"] == 0 and (not is_forced or is_ours(found["chosen"]))


def is_ours(chosen):
    """Whether a network trains on our kernels."""
    return bool(chosen) and chosen[0] != "cuDNN"


def compare_first(plain, ours):
    """The seconds of first steps in words, and whether ours are as they should be."""
    a, b = map(statistics.median, (plain, ours))
    return f"first {STEPS} steps in s: {a:.3f} plain, {b:.3f} ours, {b / a:.3f}", b <= MOST_FIRST * a


def said(case, words, is_right):
    """Prints the result of a case."""
    print(f"{'ok   ' if is_right else 'WRONG'} {case}: {words}", flush=True)
    return is_right


def results_of(options, made):
    """Writes the results of made(options), if that is wanted. Returns the exit status.

    made(options) returns the results, and whether all are right. If it is given no file for the report, it gets a
    passing one.
    """
    with tempfile.TemporaryDirectory() as folder:
        options.report = options.report or pathlib.Path(folder) / "report.jsonl"
        found, is_right = made(options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if is_right else 1


def words_of(options):
    """The words of a child."""
    mode = ["--repeats", str(options.repeats)] if options.repeats else []
    return ["--device", options.device, "--only", options.only, *mode]


def both(options):
    """Runs plain and ours. Returns the cases' results, and whether all are right."""
    plain = child(__file__, words_of(options), {})
    ours = child(__file__, words_of(options), preloaded(options, **FORCED))
    trained = sum(is_ours([event["forward"]]) for event in events(options.report, "rnn-training"))
    wrong, ratios = 0, {}
    for one, other in zip(plain, ours, strict=True):
        wrong += not said(one["case"], *compare(one, other))
        if one.get("error") and other.get("error"):
            ratios.setdefault(one["precision"], []).append(other["error"] / one["error"])
    for precision, its in ratios.items():
        mean = statistics.geometric_mean(its)
        print(f"{precision}: ours are {mean:.2f} times as far from float64 as plain's, of {len(its)} cases")
    print(f"{len(plain) - wrong} of {len(plain)} are right; {trained} networks trained on our kernels")
    found = [{"case": one["case"], "plain": one, "ours": other} for one, other in zip(plain, ours, strict=True)]
    return found, not wrong and (options.device == "cpu" or trained > 0)


def least(visits):
    """What a process answered about a layer in its visits, as one answer: the least of each time, its median (`usual`), all of
    them, and the largest difference."""
    each = {way: [one["times"][way] for one in visits if way in one["times"]] for way in visits[0]["times"]}
    times, usual = ({way: its(all_) for way, all_ in each.items()} for its in (min, statistics.median))
    whole = {"times": times, "usual": usual, "each": each, "off": most_off(visits), "chosen": visits[-1]["chosen"]}
    return visits[0] | whole


def median(answers):
    """What processes of one kind answered about a layer, as one answer: medians of times, and the largest difference."""
    medians = {what: {way: statistics.median(one[what][way] for one in answers) for way in answers[0][what]}
               for what in ("times", "usual")}  # fmt: skip
    return {"case": answers[0].get("case"), **medians, "off": most_off(answers), "chosen": chosen_by(answers), "all": answers}


def most_off(answers):
    return max((one["off"] for one in answers), key=lambda off: (off != off, off))


def visited(by_visit):
    """What the processes of each kind answered about a layer, given their answers in each visit, as one answer a kind."""
    sides = {kind: median([least(its) for its in zip(*(visit[kind] for visit in by_visit))]) for kind in by_visit[0]}
    return {kind: its | {"visits": len(by_visit)} for kind, its in sides.items()}


def is_the_hosts(by_visit):
    """Whether a layer's eager step takes as long as the host needs for it, plain and ours, and ours is near plain's."""
    sides = [[(one["times"].get("eager", 0.0), one["host"]) for one in by_visit[0][kind]] for kind in ("plain", "ours")]
    (plain, its), (ours, own) = ([statistics.median(times) for times in zip(*side)] for side in sides)
    return ours > 0 and its >= HOST_PART * plain and own >= HOST_PART * ours and plain < NEAR * ours


def in_visits(names, answers):
    """The layers in the order of visits, given the answers as they come: all, and then those again that are the host's."""
    yield from names
    again = [name for name in names if is_the_hosts(answers[name])]
    for _ in range(VISITS - 1):
        yield from again


def chosen_by(answers):
    """What most of several processes have chosen, with their number if not all have."""
    choice, count = Counter(tuple(one["chosen"] or ()) for one in answers).most_common(1)[0]
    if count == len(answers):
        return list(choice) or None
    *first, last = choice or ("undecided",)
    return [*first, f"{last} ({count} of {len(answers)} processes)"]


def kinds_of(options, script, words):
    """The processes of each kind for `turns.answers`: as many plain as ours, each of ours with a report of its own."""
    command = python(script, "--run", "--asked", *words)
    reports = [options.report.with_suffix(f".{number}.jsonl") for number in range(options.processes)]
    for report in reports:
        report.unlink(missing_ok=True)
    ours = [preloaded(options, UCUDNN_RNN_TRAINING="auto", UCUDNN_REPORT=str(report)) for report in reports]
    return {"plain": [(command, os.environ)] * len(ours), "ours": [(command, os.environ | its) for its in ours]}


def times(options):
    """Times layers plain and ours, in turns. Returns the cases' results, and whether all are right."""
    found, right, speedups, names = [], [], {}, options.layers or list(layers(options.only))
    kinds = kinds_of(options, __file__, ["--times", "--ways", ",".join(options.ways)])
    budget, answers = Budget(options.seconds), {}
    for name, its in turns.answers(kinds, in_visits(names, answers), lambda: budget.left):
        answers.setdefault(name, []).append(its)
    for name, by_visit in answers.items():
        plain, ours = map(visited(by_visit).get, ("plain", "ours"))
        right.append(said(name, *compare(plain, ours)))
        found.append({"case": name, "plain": plain, "ours": ours})
        kind = " in ".join(name.split("/")[:2])
        for way in options.ways:
            speedups.setdefault(f"{kind}, {way}", []).append(plain["times"][way] / ours["times"][way])
    for name, its in speedups.items():
        print(f"{name}: {statistics.geometric_mean(its):.2f} times as fast, at least {min(its):.2f}, of {len(its)} layers")
    left = f"; no time left for {', '.join(names[len(found) :])}" if len(found) < len(names) else ""
    print(f"{sum(right)} of {len(names)} are right{left}")
    return found, bool(found) and all(right)


def repeats(options):
    """Runs repeated passes on our kernels. Returns the cases' results, and whether all are right."""
    found = child(__file__, words_of(options), preloaded(options, **FORCED))
    right = [said(one["case"], *compare_repeats(one, options.device == "cuda")) for one in found]
    print(f"{sum(right)} of {len(right)} networks have the same bits in {options.repeats} passes")
    return found, all(right)


def first_steps(options):
    """Runs the first steps of new networks, plain and ours in turns. Returns their seconds, and whether all are right."""
    found, right = [], []
    for name in FIRST if options.only == "*" else layers(options.only):

        def seconds(kind, _, name=name):
            with tempfile.TemporaryDirectory() as folder:
                ours = preloaded(options, UCUDNN_RNN_TRAINING="auto", UCUDNN_EXPLORE="5%",
                                 UCUDNN_DATABASE=f"{folder}/tuning.sqlite")  # fmt: skip
                words = ["--device", options.device, "--only", name, "--first-steps"]
                [line] = child(__file__, words, ours if kind == "ours" else {})
            return line["seconds"]

        its = in_turns(("plain", "ours"), ROUNDS, seconds)
        right.append(said(name, *compare_first(**its)))
        found.append({"case": name, **its})
    print(f"{sum(right)} of {len(right)} new networks take at most {MOST_FIRST} times plain's seconds")
    return found, all(right)


def mode_of(options):
    modes = ((options.first_steps, first_steps), (options.repeats, repeats), (options.times, times))
    return next((mode for wanted, mode in modes if wanted), both)


def run(options):
    """What a child does."""
    import rnn_passes

    if options.times:
        if not options.asked:
            return rnn_passes.run_times(layers(options.only), options.ways, 120)
        rnn_passes.warm_up()
        return rnn_passes.run_times(turns.asked(), options.ways, IN_TURN)
    if options.repeats:
        return rnn_passes.run_repeats(options.device, options.only, options.repeats)
    if options.first_steps:
        return rnn_passes.run_first_steps(options.device, options.only)
    return rnn_passes.run_all(options.device, options.only)


def main():
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    arguments.add(parser, "shim", "device", "json", "report")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases like this, such as 'small/lstm/*'")
    parser.add_argument("--layers", type=lambda text: text.split(","), help="--times of these layers, with commas between them")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--times", action="store_true", help="print times, on a GPU")
    modes.add_argument("--repeats", type=arguments.count, metavar="N", help="compare the bits of N passes")
    modes.add_argument("--first-steps", action="store_true", help="print times of new networks' first steps")
    parser.add_argument("--ways", type=arguments.some_of(WAYS, "way"), default=list(WAYS), help=f"some of {','.join(WAYS)} [all]")
    arguments.add(parser, "processes", "seconds")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--asked", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return run(options)
    arguments.check_files(parser, options, "shim")
    if options.first_steps and not options.shim:
        parser.error("--first-steps compares with libucudnn.so: --shim is needed")
    if options.times and not options.shim:
        parser.error("--times compares with libucudnn.so: --shim is needed")
    try:
        if not options.shim:
            print(*map(json.dumps, child(__file__, words_of(options), {})), sep="\n")
            return 0
        return results_of(options, mode_of(options))
    except Ended as why:
        sys.exit(f"rnn_training: {why}")


if __name__ == "__main__":
    sys.exit(main())
