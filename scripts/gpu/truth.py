"""Samples all kernels on a GPU against double precision, beside plain's errors on the same cases.

Each case is drawn anew from all that a family accepts (scripts/gpu/sampler). Each family runs forced and by default, in
processes of its own (settings), all at once. A case is called several times on changing inputs, once beside another kernel.
Wrong is an error far above plain's (sampler/verdict.py says how far), NaN, other bits where equal ones are promised, a
failure that plain does not have, and a process that ends or hangs. The command ends with 1 if anything is wrong. With
--host it computes on the CPU, where the library has only vertex nets and PyTorch's normalizations to run.

It ends with a table, and a line for each failure that repeats its case. OUT then holds
  table.txt       the table and the failures
  cases.jsonl     each compared case: what was drawn, errors of both sides, seconds
  verified.toml   docs/verified.toml, with the families of kernels that passed (a whole run writes both)
  *.log           what each process said on standard error; *.report.jsonl, what the library chose there
"""

import argparse
import collections
import datetime
import json
import os
import queue
import re
import shutil
import subprocess
import threading
import time

import ledger
from gpu import machine
from gpu.sampler.families import AGAIN, ALWAYS, EAGER, FAMILIES
from gpu.sampler.verdict import judge
from harness.arguments import some_of
from harness.budget import Budget
from harness.children import Child
from harness.columns import aligned
from harness.cudnn import ROOT
from harness.variables import fresh

# The seconds at the end in which rivals catch up, and after which a process that is silent hangs.
RESERVE, SILENT = 0.12, 90.0
# Tuning results and compiled kernels, whose second run begins faster.
DATABASES = ROOT / "build/gpu-truth-databases"
# The fewest cases of a family that say whether our kernels ran, and for the ledger whether they are right.
LEAST, ENOUGH = 30, 60
# The first lines of failures that are printed for a family.
SHOWN = 12


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-truth", seconds=300)
    machine.add_arguments(parser, "command", "python", "host")
    parser.add_argument("--family", type=some_of(FAMILIES, "family"), default=list(FAMILIES), help=f"some of {', '.join(FAMILIES)} [all]")
    parser.add_argument("--seed", type=int, help="of all cases [from the clock; it is printed]")
    parser.add_argument("--case", type=numbers, metavar="N",
                        help="only this case of the family, or those of its setting from A to B: A-B")  # fmt: skip
    parser.add_argument("--at-once", type=int, help="processes at a time [1.5 times the processors]")


def numbers(text):
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor two as in 3-27")
    first = int(found[1])
    return first, int(found[2] or first)


def main(options):
    if options.case and len(options.family) != 1:
        machine.stop("--case is of one family: --family F --case N")
    options.seed = int(time.time()) % 10**6 if options.seed is None else options.seed
    print(f"gpu: {options.gpu}; seed {options.seed}; {options.seconds:.0f} s for {', '.join(options.family)}", flush=True)
    run = Run(options, machine.required_torch(options))
    run.all()
    text, is_wrong = run.table()
    (options.out / "table.txt").write_text(text)
    print(text, end="")
    if not options.case and not options.host:
        run.write_ledger()
    return 1 if is_wrong else 0


class Run:
    """All settings of the families, and what they found."""

    def __init__(self, options, python):
        self.options, self.python = options, python
        self.results = {name: Results(name, options) for name in options.family}
        self.cases = open(options.out / "cases.jsonl", "w")  # noqa: SIM115
        self.lock = threading.Lock()

    def settings(self):
        """The families' settings in the order of their start: of each family one, then the next ones."""
        if self.options.case:
            (name,), (first, _) = self.options.family, self.options.case
            return [(name, first % len(FAMILIES[name].settings))]
        found = [(place, name) for name in self.options.family for place in range(len(FAMILIES[name].settings))]
        return [(name, place) for place, name in sorted(found, key=lambda pair: pair[0])]

    def all(self):
        """Runs all settings in as many waves as processes fit."""
        at_once = self.options.at_once or max(2, (os.cpu_count() or 2) * 3 // 2)
        settings = self.settings()
        size = max(1, min(len(settings), at_once * 2 // 3))
        waves = [settings[first : first + size] for first in range(0, len(settings), size)]
        end = time.monotonic() + self.options.seconds
        for place, wave in enumerate(waves):
            seconds = (end - time.monotonic()) / (len(waves) - place)
            self.wave(wave, max(seconds, 5.0))

    def wave(self, settings, seconds):
        rivals = {}
        for name in {name for name, _ in settings}:
            if FAMILIES[name].rival != EAGER:
                # A rival that repeats our process has the setting's variables; a plain one has none.
                kinds = [place for its, place in settings if its == name] if FAMILIES[name].rival == AGAIN else [None]
                for place in kinds:
                    rivals[name, place] = Rival(self, name, place, seconds)
        ours = []
        for name, place in settings:
            rival = rivals.get((name, place)) or rivals.get((name, None))
            ours.append(Ours(self, name, place, seconds * (1 - RESERVE), rival, seconds * RESERVE / 2))
        for setting in ours:
            setting.thread.join()
        for rival in rivals.values():
            rival.end()

    def command(self, name, *words):
        return machine.program("truth", name, "--seed", self.options.seed, "--device", self.options.device, *words,
                               python=self.python)  # fmt: skip

    def environment(self, name, place, log):
        """Of a process of the setting; plain's for None."""
        family = FAMILIES[name]
        variables = {"PYTHONUNBUFFERED": 1, "OMP_NUM_THREADS": 2, **family.common}
        if place is None:
            return {key: value for key, value in machine.torch_environment(**variables).items() if key != "LD_PRELOAD"}
        database = DATABASES / f"{self.database(name, place)}.sqlite"
        variables |= machine.ours(self.options, log.with_suffix(".report.jsonl"), UCUDNN_DATABASE=database)
        if self.options.host and (hostdnn := self.options.library.with_name("libhostdnn.so")).exists():
            variables["UCUDNN_CUDNN_LIBRARY"] = hostdnn
        return machine.torch_environment(**variables, **family.settings[place])

    def fresh(self, name, place, log):
        """Leaves out the results of earlier runs. Compiled kernels beside them stay: their names are hashes."""
        DATABASES.mkdir(parents=True, exist_ok=True)
        if FAMILIES[name].rival != EAGER:
            fresh(DATABASES / f"{self.database(name, place)}.sqlite")
        log.unlink(missing_ok=True)

    @staticmethod
    def database(name, place):
        """Lanes of vertex nets, for which nothing is timed, share what they compile."""
        return name if FAMILIES[name].rival == EAGER else f"{name}-{place}"

    def compared(self, name, ours, rival):
        with self.lock:
            case = FAMILIES[name].case(name, self.options.seed, ours["case"], self.options.device)
            if sum(map(len, case.get("children", ()))) > 50:
                case["children"] = f"{len(case['children'])} graphs"  # the number says which
            self.cases.write(json.dumps({"family": name, "drawn": case, "ours": ours, "rival": rival}) + "\n")
            self.cases.flush()
            self.results[name].add(ours, rival)

    def table(self):
        """The table in text, and whether anything is wrong."""
        header = ["family", "cases", "ours", "skipped", "s a case", "worst error", "wrong"]
        rows, lines, is_wrong = [header], [], False
        for results in self.results.values():
            if not self.options.case and not self.options.host:
                results.look_whether_ours_ran()
            rows.append(results.row())
            lines += results.lines()
            is_wrong = is_wrong or bool(results.wrong)
        cases = sum(results.cases for results in self.results.values())
        head = [f"{self.options.gpu}; seed {self.options.seed}; {cases} cases", *aligned(rows),
                "worst error: ours in times plain's, with its share of rounding; above 4 it is wrong"]  # fmt: skip
        verdict = "WRONG" if is_wrong else "all right" if cases else "nothing ran"
        return "\n".join([*head, *lines, verdict]) + "\n", is_wrong or not cases

    def write_ledger(self):
        """Writes down which families of kernels passed, if their whole sample did."""
        passed = collections.defaultdict(list)
        for name, family in FAMILIES.items():
            passed[family.kernels].append(self.results.get(name))
        passed.pop(None)
        whole = {kernels: its for kernels, its in passed.items()
                 if all(results and not results.wrong and results.cases >= ENOUGH for results in its)}  # fmt: skip
        command = self.options.command or self.options.library.with_name("ucudnn")
        if not whole:
            return print("gpu: docs/verified.toml stays: no family of kernels was sampled wholly and rightly")
        versions = ledger.versions(command)
        seen = {kernels: ledger.Seen(versions[kernels], self.options.gpu.split(",")[0], datetime.date.today().isoformat(),
                                     sum(results.cases for results in its), [self.options.seed])
                for kernels, its in whole.items()}  # fmt: skip
        ledger.write(seen)
        shutil.copy(ledger.FILE, self.options.out / "verified.toml")
        return print(f"gpu: docs/verified.toml has {', '.join(whole)} of this run")


class Process:
    """A process of cases, and its lines. It is started anew behind a case that ends it."""

    def __init__(self, run, name, place, kind, seconds):
        self.run, self.name, self.place, self.budget = run, name, place, Budget(seconds)
        self.log = run.options.out / f"{name}-{kind}.log"
        run.fresh(name, kind, self.log)
        self.environment = run.environment(name, place, self.log)
        self.thread = threading.Thread(target=self.guarded, daemon=True)

    def guarded(self):
        try:
            self.work()
        except Exception as error:  # noqa: BLE001
            self.run.results[self.name].fault(f"{self.log.stem}: {type(error).__name__}: {error}")

    def start(self, *words, given=None):
        command = self.run.command(self.name, *words, "--seconds", f"{self.budget.left:.1f}")
        return Child(command, self.environment, self.log, "a", given)

    def lines(self, child, grace):
        """The lines of a process. It is killed if it hangs in a case, or when time is over."""
        return child.lines(lambda: self.budget.left + grace, SILENT)


class Ours(Process):
    """A process with the library, which runs the setting's cases."""

    def __init__(self, run, name, place, seconds, rival, grace):
        super().__init__(run, name, place, place, seconds)
        # A case that runs when time is over may end in peace, while the rivals catch up.
        self.rival, self.grace = rival, grace
        self.thread.start()

    def work(self):
        settings, most = len(FAMILIES[self.name].settings), FAMILIES[self.name].most
        first, last = self.run.options.case or (self.place, most and most * settings)
        while not self.budget.is_over and (last is None or first <= last):
            end, begun = [] if last is None else ["--last", last], None
            with self.start("--setting", self.place, "--first", first, *end) as child:
                for line in self.lines(child, self.grace):
                    if "begin" in line:
                        begun = line["begin"]
                    else:
                        self.found(line)
                        begun = None
            if child.is_cut or not child.has_failed and begun is None:
                return
            if begun is None:
                # It ended outside of a case, as where it could not begin.
                if not self.run.results[self.name].wrong and first == self.place:
                    self.run.results[self.name].fault(f"setting {self.place} {child.why[:250]}")
                    return
                begun = first
            else:
                self.found({"case": begun, "failed": child.why[:250], "seconds": 0.0})
            first = begun + settings

    def found(self, line):
        if "skipped" in line:
            return self.run.results[self.name].skip(line["skipped"])
        if FAMILIES[self.name].rival == EAGER:
            return self.run.compared(self.name, line, line.get("rival", {"tensors": {}}))
        return self.rival.ask(line)


class Rival(Process):
    """A process that runs the cases that settings have ended: without the library, or once more with it."""

    def __init__(self, run, name, place, seconds):
        super().__init__(run, name, place, "plain" if place is None else f"{place}-again", seconds)
        self.waiting, self.asked = {}, queue.Queue()
        self.thread.start()

    def ask(self, line):
        self.waiting[line["case"]] = line
        self.asked.put(line["case"])

    def end(self):
        self.asked.put(None)
        self.thread.join(max(self.budget.left, 1.0) + 5)
        for _ in self.waiting:
            self.run.results[self.name].skip("no time was left to compare")

    def work(self):
        is_over = False
        while not is_over and not self.budget.is_over:
            begun = None
            with self.start("--asked", given=subprocess.PIPE) as child:
                threading.Thread(target=self.feed, args=(child.process,), daemon=True).start()
                for line in self.lines(child, grace=0.0):
                    if "begin" in line:
                        begun = line["begin"]
                    elif (ours := self.waiting.pop(line["case"], None)) is not None:
                        self.run.compared(self.name, ours, line)
                        begun = None
            is_over = child.is_cut or not child.has_failed
            if not is_over and (ours := self.waiting.pop(begun, None)) is not None:
                self.run.compared(self.name, ours, {"case": begun, "failed": child.why[:250]})
            # The cases that it was asked for and did not reach.
            for case in sorted(self.waiting):
                self.asked.put(case)

    def feed(self, process):
        """Hands over the numbers of cases, and the end."""
        while process.poll() is None:
            try:
                number = self.asked.get(timeout=0.5)
            except queue.Empty:
                continue
            try:
                if number is None:
                    self.asked.put(None)
                    return process.stdin.close()
                process.stdin.write(f"{number}\n")
                process.stdin.flush()
            except (BrokenPipeError, ValueError):
                return None
        return None


class Results:
    """What a family's cases came to."""

    def __init__(self, name, options):
        self.name, self.family, self.options = name, FAMILIES[name], options
        self.cases = self.ours = 0
        self.skipped = collections.Counter()
        self.seconds, self.worst = [], (0.0, None)
        self.by_setting = collections.Counter()
        #: Of each wrong case: its number and why.
        self.wrong = []

    def skip(self, why):
        self.skipped[why] += 1

    def fault(self, words):
        """What is wrong with no case."""
        self.wrong.append((None, [words]))

    def add(self, ours, rival):
        number, setting = ours["case"], ours["case"] % len(self.family.settings)
        wrong, worst = judge(ours, rival, self.promises_bits(ours, rival, setting), self.family.rival == AGAIN)
        if ("failed" in ours or "failed" in rival) and not wrong:
            return self.skip(f"plain: {rival['failed']}" if "failed" in rival else ours["failed"])
        self.cases += 1
        self.ours += ours.get("ours", 0)
        self.by_setting[setting] += ours.get("ours", 0)
        self.seconds.append(ours["seconds"])
        self.worst = max(self.worst, (worst, number), key=lambda pair: pair[0])
        if wrong:
            self.wrong.append((number, wrong))
        return None

    def promises_bits(self, ours, rival, setting):
        """Whether a case's calls have equal bits."""
        if self.family.bits == ALWAYS:
            return True
        case = self.family.case(self.name, self.options.seed, ours["case"], self.options.device)
        if case.get("deterministic"):
            return True
        # cuDNN may run such a case even if our kernels are forced, and its results may differ from call to call.
        return setting in self.family.forced and (ours.get("ours", 0) > 0 or not rival.get("different"))

    def look_whether_ours_ran(self):
        """A setting that forces our kernels, and ran none of them, has compared plain with itself."""
        for setting in self.family.forced:
            if self.cases >= LEAST and not self.by_setting[setting]:
                variables = " ".join(f"{name}={value}" for name, value in self.family.settings[setting].items())
                self.fault(f"setting {setting} ({variables}) never ran our kernels")

    def row(self):
        ours = str(self.ours) if self.family.event else "–"
        seconds = f"{sum(self.seconds) / len(self.seconds):.2f}" if self.seconds else "–"
        worst = f"{self.worst[0]:.2f} ({self.worst[1]})" if self.worst[1] is not None else "–"
        return [self.name, str(self.cases), ours, str(self.skipped.total()), seconds, worst, str(len(self.wrong))]

    def lines(self):
        """Why cases were skipped, and a line for each failure, which repeats it."""
        found = [f"skipped {self.name}: {count} times: {why}" for why, count in self.skipped.most_common(3)]
        for number, wrong in self.wrong[:SHOWN]:
            repeat = "" if number is None else f"--family {self.name} --seed {self.options.seed} --case {number}: "
            found.append(f"WRONG {repeat}{'; '.join(wrong[:4])}{f'; and {len(wrong) - 4} more' if len(wrong) > 4 else ''}")
        if len(self.wrong) > SHOWN:
            found.append(f"WRONG {self.name}: {len(self.wrong) - SHOWN} more")
        return found
