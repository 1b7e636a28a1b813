"""PyTorch's own samples of convolutions, normalizations and recurrent networks, plain, with our kernels forced, and by default.

PyTorch's wheel carries the samples of its tests (OpInfo, ModuleInfo): small and odd sizes, in each type and in several
layouts. Results, gradients and gradients of gradients are held against double precision; what a call raises, and the types,
sizes and strides of its results, against plain's. Wrong is an error far above plain's (sampler/verdict.py says how far), and a
family of samples whose middle error is more than 1.2 times plain's. The command ends with 1 if anything is wrong, and with 2
where a package is missing that PyTorch's tests import: expecttest or numpy. OUT then holds
  checks.txt   a line for each check: ok, WRONG, or skipped, and why
  wrong.txt    a line for each wrong sample, by whose name --only repeats it
  *.jsonl      what each process has found; *.report.jsonl, what was decided there
"""

import concurrent.futures
import math
import os
import statistics
import time

from gpu import machine
from gpu.sampler.families import EXPLORING, RNN, TRAINING, is_ours
from gpu.sampler.verdict import UNIT, judge
from gpu.session import FORCED, TorchSession
from harness.arguments import count
from harness.children import failure, last_line
from harness.results import whole_lines

SETTINGS = {"plain": {}, "forced": FORCED | RNN | TRAINING | EXPLORING, "default": {}}
# The processes of each setting, in shares of --at-once: what is forced compiles, which takes long.
SHARES = {"plain": 1, "forced": 2, "default": 1}
# How often a sample runs: plain once. A convolution tries our engines from its third call on.
ROUNDS = {"plain": 1, "forced": 12, "default": 6}
# The most that the middle error of a family may be, over plain's.
MOST_ERROR = 1.2
# The seconds at the end in which no sample begins.
RESERVE = 20
# On a CPU our kernels save statistics in float, as a GPU's do, and PyTorch's own backward pass refuses them in two bytes.
# Only what is forced without a GPU meets this.
REFUSED_ON_HOST = "expected scalar type"
# The first wrong samples of a setting that are printed.
SHOWN = 12


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-sample-inputs", seconds=150)
    machine.add_arguments(parser, "python", "host")
    parser.add_argument("--only", default="", help="the samples whose name has this in it [all]")
    parser.add_argument("--rounds", type=count, help="how often each sample runs with us [12 forced, 6 by default]")
    parser.add_argument("--at-once", type=count, help="processes at a time, at least 4 [as many as processors]")


def main(options):
    share = max((options.at_once or os.cpu_count() or 1) // sum(SHARES.values()), 1)
    checks = Checks(options)
    counts = {setting: SHARES[setting] * share for setting in SETTINGS}
    parts = [(setting, part, counts[setting]) for setting in SETTINGS for part in range(1, counts[setting] + 1)]
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        ended = list(pool.map(lambda part: checks.part(*part), parts))
    if 2 in [status for status, _ in ended]:
        machine.stop(next(said for status, said in ended if status == 2))
    plain = checks.lines("plain")
    if any("cut" in line for file in options.out.glob("plain-*[0-9].jsonl") for line in whole_lines(file)):
        checks.verdict("skipped", "plain: the other samples", "no time left")
    checks.judge(bool(plain), "plain", f"{len(plain)} samples, {sum(len(line['tensors']) for line in plain.values())} tensors")
    with open(options.out / "wrong.txt", "w") as checks.wrong:
        for setting in ("forced", "default"):
            checks.compare(setting, plain, checks.lines(setting))
    checks.kernels("forced")
    return checks.end()


class Checks(TorchSession):
    def __init__(self, options):
        super().__init__(options)
        for old in (*self.out.glob("*.jsonl"), *self.out.glob("*.log")):
            old.unlink()

    def part(self, setting, part, parts):
        """Runs a process. Returns its status and its last words, and notes a failure, with the sample that it came in."""
        name = f"{setting}-{part}"
        out, log = (self.out / f"{name}.{ending}" for ending in ("jsonl", "log"))
        # Samples are small, and the processes side by side.
        variables = {"OMP_NUM_THREADS": 1}
        if setting != "plain":
            variables |= self.with_us(name, "warn,ucudnn_torch=debug,ucudnn_norm=debug") | SETTINGS[setting]
        rounds = ROUNDS[setting] if setting == "plain" else self.options.rounds or ROUNDS[setting]
        # A process ends by itself, after the sample in which time is over: one that takes RESERVE longer hangs.
        words = ["--part", f"{part}/{parts}", "--rounds", rounds, "--only", self.options.only,
                 "--until", f"{time.monotonic() + max(self.left - RESERVE, 1):.1f}"]  # fmt: skip
        command = machine.program("sample_inputs", "--device", self.options.device, *words, python=self.python)
        status = self.run([*machine.setting(variables), *command], self.options.seconds, machine.torch_environment(), out, log)
        if status not in (0, 2):
            begun = [line["begin"] for line in whole_lines(out) if "begin" in line]
            self.verdict("WRONG", name, f"{failure(status, log)}; in {begun[-1] if begun else 'no sample'}")
        return status, last_line(log.read_text(errors="replace"))

    def lines(self, setting):
        """The last line of each sample."""
        files = sorted(self.out.glob(f"{setting}-*[0-9].jsonl"))
        return {line["case"]: line for file in files for line in whole_lines(file) if "case" in line}

    def compare(self, setting, plain, ours):
        """Each sample beside plain's, and the middle errors."""
        both = [(plain[case], ours[case]) for case in plain if case in ours]
        found = [(line["case"], wrong) for line, its in both if (wrong := self.differences(setting, line, its))]
        for case, wrong in found:
            self.wrong.write(f"{setting}: {case}: {'; '.join(wrong)}\n")
        for case, wrong in found[:SHOWN]:
            self.verdict("WRONG", f"{setting}, {case}", "; ".join(wrong[:3])[:300])
        told = f"{len(both) - len(found)} samples right, {len(found)} wrong"
        self.judge(both and not found, setting, f"{told}; {sum(len(line['outcomes']) > 1 for _, line in both)} changed between calls")
        if len(both) < len(plain):
            self.verdict("skipped", f"{setting}: {len(plain) - len(both)} of {len(plain)} samples", "no time left")
        self.middles(setting, both)

    def differences(self, setting, plain, ours):
        """What is wrong with a sample, in words."""
        is_host = self.options.host and setting == "forced"
        outcomes = [its for its in ours["outcomes"] if not (is_host and its and REFUSED_ON_HOST in its)]
        if outcomes and outcomes != plain["outcomes"]:
            return [f"outcome {' or '.join(map(str, outcomes))}, plain {plain['outcomes'][0]}"]
        if is_host:
            # The forms of statistics differ, too.
            shared = plain["tensors"].keys() & ours["tensors"].keys()
            ours = ours | {"tensors": {name: ours["tensors"][name] for name in shared}}
            return judge(ours, plain, False, False)[0]
        if ours.get("form") != plain.get("form"):
            names = [name for name in plain["form"] | ours["form"] if plain["form"].get(name) != ours["form"].get(name)]
            return [f"{name} has the form {ours['form'].get(name)}, plain {plain['form'].get(name)}" for name in names]
        return judge(ours, plain, False, False)[0]

    def middles(self, setting, both):
        """The middle error of each operator or module and type: chance moves a small tensor's error, but not this."""
        ratios = {}
        for plain, ours in both:
            family = " ".join(plain["case"].split()[:2])
            for name in plain["tensors"].keys() & ours["tensors"].keys():
                its, other = ours["tensors"][name]["norm"], plain["tensors"][name]["norm"]
                if max(its, other) > 0 and math.isfinite(its) and math.isfinite(other):
                    ratios.setdefault(family, []).append(its / max(other, UNIT[plain["tensors"][name]["precision"]]))
        middle = {family: statistics.median(found) for family, found in ratios.items()}
        over = [f"{family} {ratio:.2f}" for family, ratio in middle.items() if not ratio <= MOST_ERROR]
        self.judge(middle and not over, f"{setting}, middle errors over plain's",
                   "; ".join(over) or f"at most {max(middle.values(), default=0):.2f} of {len(middle)} families")  # fmt: skip

    def kernels(self, setting):
        """How much ran on our kernels. Where none did, plain was compared with itself."""
        lines = [line for file in self.out.glob(f"{setting}-*.report.jsonl") for line in whole_lines(file)]
        logs = [log.read_text(errors="replace").splitlines() for log in self.out.glob(f"{setting}-*.log")]
        launches = sum(line.endswith("on our kernels") for log in logs for line in log)
        found = {event: sum(is_ours(line.get(field)) for line in lines if line["event"] == event for field in fields)
                 for event, fields in (("norm", ["chosen"]), ("depthwise", ["chosen"]), ("rnn", ["chosen"]),
                                       ("rnn-training", ["forward", "backward"]))}  # fmt: skip
        timed = {(str(line.get("x")), str(line.get("w")), line.get("algorithm", "")) for line in lines if line["event"] == "timed"}
        engines = sum("UCUDNN_ENGINE" in algorithm for *_, algorithm in timed)
        told = ", ".join(f"{number} {event}" for event, number in found.items())
        wanted = ("norm",) if self.options.host else ("norm", "depthwise", "rnn-training")
        self.judge(self.options.only or all(found[event] for event in wanted), f"{setting}, our kernels",
                   f"{launches} passes on our kernels; decisions for ours: {told}; {engines} trials of our engines")  # fmt: skip
