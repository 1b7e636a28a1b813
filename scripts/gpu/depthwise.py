"""Depthwise convolutions of PyTorch's own: errors, ways to call them, and times beside PyTorch's kernels.

PyTorch runs the same cases plain and with us. The command ends with 1 if anything is wrong. OUT then holds
  checks.txt   a line for each check: ok, WRONG, or skipped, and why
  times.txt    layers of networks: the time of each pass, plain, forced and chosen, beside the bytes' limit
  *.jsonl      what each process has found; *.report.jsonl, what was decided there
"""

import shutil

from gpu import machine
from gpu.norm import BANDWIDTHS
from gpu.sampler.families import is_ours
from gpu.session import TorchSession
from harness.results import whole_lines

# The most that an error may be: of rounding the result once, and of adding floats up.
MOST_ERROR = {"half": 8e-4, "bfloat16": 6e-3, "float": 3e-6}
# The most that the chosen pass may take over plain's.
MOST_TIME = 1.05
SETTINGS = {"plain": {}, "forced": {"UCUDNN_TORCH": "force"}, "chosen": {"UCUDNN_EXPLORE": "unbounded"}}
PARTS = ("errors", "calls", "times")


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-depthwise", seconds=300)
    machine.add_arguments(parser, "python", "host")
    machine.add_parts(parser, PARTS)


def main(options):
    checks = Checks(options)
    for part in options.parts:
        if part == "times" and options.host:
            checks.verdict("skipped", part, "there is no GPU")
        else:
            getattr(checks, part)()
    return checks.end("times.txt")


class Checks(TorchSession):
    def lines(self, part, setting, most, *words):
        """As `program_lines`, by case."""
        lines = self.program_lines("depthwise", part, setting, most, *words, **SETTINGS[setting])
        return {line["case"]: line for line in lines}

    def decisions(self, part):
        """What the library has decided in a part that is forced, in its order."""
        return [line for line in whole_lines(self.out / f"{part}-forced.report.jsonl") if line["event"] == "depthwise"]

    def errors(self):
        # Each of a case's passes is compiled first, for half a second on a GPU.
        found = self.lines("errors", "forced", 200, "--cases", 40 if self.options.host else 60)
        worst = {}
        for case, line in found.items():
            for what, error in line["errors"].items():
                off = error if error == error else float("inf")
                worst[line["kind"], what] = max(worst.get((line["kind"], what), (0.0, "")), (off, case))
        for (kind, what), (error, case) in sorted(worst.items()):
            self.judge(error <= MOST_ERROR[kind], f"error of {what} in {kind}", f"{error:.1e}; {case}")
        # A convolution that our engine refuses has no contest. In half some are cuDNN's.
        decided = self.decisions("errors")
        for direction in ("F",) if self.options.host else ("F", "BD", "BF"):
            ours = {line["spec"] for line in decided if line["spec"].startswith(f"{direction} ") and is_ours(line["chosen"])}
            least = len(found) * (1.0 if self.options.host else 0.4)
            self.judge(bool(found) and len(ours) >= least, f"our engine, {direction}", f"{len(ours)} of {len(found)} cases")

    def calls(self):
        # Where there is no compiler, torch.compile cannot be tried.
        compiles = ["--compiles"] if shutil.which("cc") else []
        self.looks("calls", "depthwise_calls", "depthwise convolution", 120, *compiles)

    def times(self):
        plain, forced, chosen = (self.lines("times", setting, 120) for setting in SETTINGS)
        bandwidth = next((bytes_ for name, bytes_ in BANDWIDTHS.items() if name in self.options.gpu), None)
        lines = [f"{self.options.gpu}; milliseconds of the device; images, channels, slices of volumes, rows, columns; filter; stride",
                 f"{'type and layer':42} {'pass':>15}   plain  forced  chosen   limit"]  # fmt: skip
        slower = []
        for case in [case for case in plain if case in forced and case in chosen]:
            limit = 1e3 * plain[case]["bytes"] / bandwidth if bandwidth else 0.0
            for name, time in plain[case]["times"].items():
                ours, its = forced[case]["times"][name], chosen[case]["times"][name]
                lines.append(f"{case:42} {name:>15} {time:7.3f} {ours:7.3f} {its:7.3f} {limit:7.3f}")
                if its > MOST_TIME * time:
                    slower.append(f"{case}, {name} {its / time:.2f}")
        (self.out / "times.txt").write_text("\n".join(lines) + "\n")
        decided = {line["spec"]: line["chosen"] for line in self.decisions("times")}
        lost = [spec for spec, chosen in decided.items() if not is_ours(chosen)]
        self.judge(bool(decided) and not lost, "forced passes", "; ".join(lost) or f"{len(decided)} on our kernels")
        self.judge(bool(chosen) and not slower, "chosen passes", "; ".join(slower) or f"none above {MOST_TIME} of plain's")
