"""Batch normalization: errors, repeated runs, times beside cuDNN's, random shapes, sanitizer.

PyTorch runs the same cases plain and with us. The command ends with 1 if anything is wrong. OUT then holds
  checks.txt   a line for each check: ok, WRONG, or skipped, and why
  times.txt    ResNet-50's layers: the time of each pass, by cuDNN in both layouts and by us, beside the bytes' limit
  *.jsonl      what each process has found; report-*.jsonl, what was decided there
  memcheck.log, initcheck.log   compute-sanitizer's words on our kernels
"""

import math
import statistics

from gpu import machine
from gpu.session import TorchSession, sanitizing
from gpu.sampler.families import is_ours
from harness.children import last_line
from harness.results import events

# Bytes a second of an H100's and an H200's memory, by the name; the limit is not shown for other devices.
BANDWIDTHS = {"H200": 4.8e12, "H100": 3.35e12}
# The most that an error may be, over cuDNN's; below LEAST of the result's norm, both are rounding alone.
MOST_ERROR, LEAST = 1.2, 1e-8
# Likewise on a CPU, where PyTorch adds up in double precision: four times what rounding to float loses.
LEAST_ON_CPU = 4 * 2.0**-24
# The most that a step may take, over plain's.
MOST_TIME = 1.01
# On a CPU, PyTorch's own kernels are replaced only where that is forced.
FORCED = {"UCUDNN_NORM": "force", "UCUDNN_TORCH": "force"}
PARTS = ("errors", "repeat", "times", "random", "sanitizer")


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-norm", seconds=540)
    machine.add_arguments(parser, "runs", "python", "host")
    machine.add_parts(parser, PARTS)


def main(options):
    checks = Checks(options)
    for part in options.parts:
        getattr(checks, part)()
    return checks.end("times.txt")


class Checks(TorchSession):
    def case_lines(self, kind, part, most, *words, **more):
        """As `program_lines`, by case."""
        lines = self.program_lines("batch_norm", part, kind, most, *words, **more)
        return {(line["case"], line.get("layout")): line for line in lines}

    def both(self, part, most, *words, **variables):
        """The lines of cases that ran plain and with us, plain's first."""
        plain = self.case_lines("plain", part, most, *words)
        ours = self.case_lines("ours", part, most, *words, **variables)
        return [(plain[case], ours[case]) for case in plain if case in ours]

    def took_part(self, part, least=1):
        """Notes whether our kernels ran at all: then comparisons mean something."""
        chosen = [line["chosen"] for line in self.decisions(part)]
        ours = sum(map(is_ours, chosen))
        return self.judge(ours >= least, f"{part}: our kernels", f"{ours} of {len(chosen)} passes")

    def decisions(self, part):
        return events(self.out / f"{part}-ours.report.jsonl", "norm")

    def errors(self):
        worst, least = {}, LEAST_ON_CPU if self.options.host else LEAST
        for plain, ours in self.both("errors", 120, **FORCED):
            for name, error in ours["errors"].items():
                ratio = error / max(plain["errors"][name], least) if error == error else float("inf")
                worst[name] = max(worst.get(name, (0, "")), (ratio, f"{plain['case']}: {error:.1e} against {plain['errors'][name]:.1e}"))
        for name, (ratio, where) in worst.items():
            self.judge(ratio <= MOST_ERROR, f"error of {name}", f"{ratio:.2f} of plain's; {where}")
        self.took_part("errors")

    def repeat(self):
        runs = self.options.runs or (20 if self.options.host else 10000)
        for (case, _), found in self.case_lines("ours", "repeat", 180, "--runs", runs, **FORCED).items():
            different = found["different"]
            self.judge(not different, f"repeated runs, {case}", f"{different} of {runs} differ")
        self.took_part("repeat")

    def times(self):
        small = ["--batch", 2] if self.options.host else []
        plain = self.case_lines("plain", "times", 90, *small)
        ours = self.case_lines("ours", "times", 90, *small, **FORCED)
        self.took_part("times")
        if self.options.host or not plain or not ours:
            return
        bandwidth = next((bytes_ for name, bytes_ in BANDWIDTHS.items() if name in self.options.gpu), None)
        lines = [f"{self.options.gpu}; batch 128; milliseconds by CUDA graphs, of data that are in no cache; plain is cuDNN's "
                 "kernels in half, and PyTorch's own in bfloat16",
                 "    type channels side count     pass  plain NCHW  NHWC   ours  of the bytes' limit"]  # fmt: skip
        sums = {}
        for (case, layout), found in plain.items():
            if layout != "first":
                continue
            kind, channels, side = case.split()
            for name, tensors in (("forward", 2), ("backward", 3), ("inference", 2)):
                its = {"first": found[name], "last": plain[case, "last"][name], "ours": ours[case, "first"][name],
                       "limit": 1e3 * tensors * found["bytes"] / bandwidth if bandwidth else 0.0}  # fmt: skip
                all_ = sums.setdefault((kind, "inference" if name == "inference" else "training"), dict.fromkeys(its, 0.0))
                for key, time in its.items():
                    all_[key] += found["count"] * time
                share = its["limit"] / its["ours"]
                lines.append(f"{kind:>8} {channels:>8} {side:>4} {found['count']:>5} {name:>9} {its['first']:>10.4f} "
                             f"{its['last']:>6.4f} {its['ours']:>6.4f}  {share:.2f}")  # fmt: skip
        for (kind, of), its in sums.items():
            lines.append(f"all layers in {of} in {kind}: plain NCHW {its['first']:.2f}, NHWC {its['last']:.2f}, ours "
                         f"{its['ours']:.2f}, limit {its['limit']:.2f} ms")  # fmt: skip
            self.judge(its["ours"] < min(its["first"], its["last"]), f"times, {of} in {kind}", lines[-1])
        (self.out / "times.txt").write_text("\n".join(lines) + "\n")

    def random(self):
        few = ["--cases", 5] if self.options.host else []
        pairs = self.both("random", 150, *few, UCUDNN_EXPLORE="unbounded")
        if self.options.host:
            return
        self.took_part("random")
        # Where plain was chosen for both passes, both processes make the same calls.
        chosen = [line["spec"] for line in self.decisions("random") if is_ours(line["chosen"])]
        by_us = lambda case: any(spec.endswith(f" {spec_of(case)}") for spec in chosen)  # noqa: E731
        all_ratios = sorted((ours["step"] / plain["step"], plain["case"]) for plain, ours in pairs)
        ratios = [(ratio, case) for ratio, case in all_ratios if by_us(case)]
        if not ratios:
            self.verdict("WRONG", "random shapes", "none ran on our kernels")
            return
        if same := [ratio for ratio, case in all_ratios if not by_us(case)]:
            self.verdict("ok", "the scatter", f"{len(same)} that ran plain's both times took {same[0]:.3f} to {same[-1]:.3f}")
        slower = [f"{case} {ratio:.3f}" for ratio, case in ratios if ratio > MOST_TIME]
        seen = (f"{len(ratios)} of {len(pairs)} on our kernels, {ratios[0][0]:.2f} to {ratios[-1][0]:.2f} of plain's time, "
                f"median {statistics.median(ratio for ratio, _ in ratios):.2f}")  # fmt: skip
        self.judge(not slower, "random shapes", "; ".join([seen, *slower]))

    def sanitizer(self):
        sanitizer = self.find_sanitizer()
        # Only our kernels, which keeps it quick.
        ours = [word for name in ("normalize", "differentiate", "infer")
                for word in ("--kernel-name", f"kernel_substring={name}")]  # fmt: skip
        for tool in ("memcheck", "initcheck") if sanitizer else ():
            log = self.out / f"{tool}.log"
            command = sanitizing(sanitizer, tool, log, "--target-processes", "all", *ours)
            found = self.case_lines("ours", "repeat", 150, "--runs", 2, command=command, **FORCED)
            if found:
                self.judge(machine.is_clean(log.read_text()), tool, last_line(log.read_text()))


def spec_of(case):
    """The part of a pass's text that is a case's: type, images, channels and plane."""
    kind, sizes = case.split()
    images, channels, *plane = map(int, sizes.split("x"))
    return f"{kind} images={images} channels={channels} plane={math.prod(plane)}"
