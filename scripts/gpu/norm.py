"""Batch and group normalization: errors, repeated runs, ways to call it, two ranks, times, random shapes, sanitizer.

PyTorch runs the same cases plain and with us. The command ends with 1 if anything is wrong. OUT then holds
  checks.txt   a line for each check: ok, WRONG, or skipped, and why
  times.txt    ResNet-50's layers: the time of each pass, by cuDNN in both layouts and by us, beside the bytes' limit
  group-times.txt  likewise the layers of networks with group normalization, by PyTorch's own kernels and by us
  *.jsonl      what each process has found; report-*.jsonl, what was decided there
  memcheck.log, initcheck.log   compute-sanitizer's words on our kernels
"""

import math
import statistics

from gpu import machine
from gpu.session import FORCED, TorchSession, sanitizing
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
# Likewise of the host's time for a call, in microseconds.
MOST_ON_HOST = 5.0
PARTS = ("errors", "repeat", "calls", "ranks", "times", "random", "host", "group-errors", "group-repeat", "group-calls", "group-times",
         "group-random", "sanitizer")  # fmt: skip


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-norm", seconds=540)
    machine.add_arguments(parser, "runs", "python", "host")
    machine.add_parts(parser, PARTS)


def main(options):
    checks = Checks(options)
    for part in options.parts:
        getattr(checks, part.replace("-", "_"))()
    return checks.end("times.txt", "group-times.txt")


class Checks(TorchSession):
    def case_lines(self, kind, part, most, *words, **more):
        """As `program_lines`, by case."""
        program = "group_norm" if part.startswith("group-") else "batch_norm"
        lines = self.program_lines(program, part, kind, most, *words, **more)
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

    def errors(self, part="errors"):
        worst, least = {}, LEAST_ON_CPU if self.options.host else LEAST
        for plain, ours in self.both(part, 120, **FORCED):
            for name, error in ours["errors"].items():
                ratio = error / max(plain["errors"][name], least) if error == error else float("inf")
                worst[name] = max(worst.get(name, (0, "")), (ratio, f"{plain['case']}: {error:.1e} against {plain['errors'][name]:.1e}"))
        for name, (ratio, where) in worst.items():
            self.judge(ratio <= MOST_ERROR, f"{part} of {name}", f"{ratio:.2f} of plain's; {where}")
        self.took_part(part)

    def group_errors(self):
        self.errors("group-errors")

    def repeat(self, part="repeat"):
        runs = self.options.runs or (20 if self.options.host else 10000)
        for (case, _), found in self.case_lines("ours", part, 180, "--runs", runs, **FORCED).items():
            different = found["different"]
            self.judge(not different, f"repeated runs, {case}", f"{different} of {runs} differ")
        self.took_part(part)

    def group_repeat(self):
        self.repeat("group-repeat")

    def calls(self):
        self.looks("calls", "batch_calls", "batch normalization", 90)

    def group_calls(self):
        self.looks("group-calls", "group_calls", "group normalization", 90)

    def ranks(self):
        """Two processes under DistributedDataParallel."""
        self.looks("ranks", "batch_ranks", "batch normalization", 60)

    def limit_of(self, bytes_):
        """The milliseconds that the device's memory takes for so many bytes; 0 for a device that is not known."""
        bandwidth = next((its for name, its in BANDWIDTHS.items() if name in self.options.gpu), None)
        return 1e3 * bytes_ / bandwidth if bandwidth else 0.0

    def times(self):
        small = ["--batch", 2] if self.options.host else []
        plain = self.case_lines("plain", "times", 90, *small)
        ours = self.case_lines("ours", "times", 90, *small, **FORCED)
        self.took_part("times")
        if self.options.host or not plain or not ours:
            return
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
                       "limit": self.limit_of(tensors * found["bytes"])}  # fmt: skip
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

    def group_times(self):
        plain = self.case_lines("plain", "group-times", 120)
        ours = self.case_lines("ours", "group-times", 120, **FORCED)
        self.took_part("group-times")
        if self.options.host or not plain or not ours:
            return
        lines = [f"{self.options.gpu}; milliseconds by CUDA graphs, of data that are in no cache; plain is PyTorch's own kernels",
                 f"{'network':>12} {'layer':<36} {'count':>5} {'pass':>9} {'plain':>9} {'ours':>9}  of the bytes' limit"]  # fmt: skip
        sums = {}
        for case, found in plain.items():
            for name, tensors in (("forward", 2), ("backward", 3)):
                its = {"plain": found[name], "ours": ours[case][name], "limit": self.limit_of(tensors * found["bytes"])}
                all_ = sums.setdefault((found["network"], name, found["type"]), dict.fromkeys(its, 0.0))
                for key, time in its.items():
                    all_[key] += found["count"] * time
                lines.append(f"{found['network']:>12} {case[0]:<36} {found['count']:>5} {name:>9} {its['plain']:>9.4f} "
                             f"{its['ours']:>9.4f}  {its['limit'] / its['ours']:.2f}")  # fmt: skip
        for (network, name, kind), its in sums.items():
            lines.append(f"all layers of {network}, {name}, {kind}: plain {its['plain']:.3f}, ours {its['ours']:.3f}, "
                         f"limit {its['limit']:.3f} ms")  # fmt: skip
            self.judge(its["ours"] < its["plain"], f"group-times, {network}, {name}, {kind}", lines[-1])
        (self.out / "group-times.txt").write_text("\n".join(lines) + "\n")

    def host(self):
        """100,000 calls on a small tensor, of which the device's queue holds a thousand."""
        runs = 200 if self.options.host else 100_000
        for plain, ours in self.both("host", 60, "--runs", runs, **FORCED):
            more = ours["microseconds"] - plain["microseconds"]
            seen = f"{ours['microseconds']:.1f} us, plain {plain['microseconds']:.1f}"
            if self.options.host:
                self.verdict("skipped", f"host's time, {plain['case']}", f"kernels are emulated here; {seen}")
            else:
                self.judge(more <= MOST_ON_HOST, f"host's time, {plain['case']}", seen)
        self.took_part("host")

    def group_random(self):
        self.random("group-random")

    def random(self, part="random"):
        few = ["--cases", 5] if self.options.host else []
        pairs = self.both(part, 150, *few, UCUDNN_EXPLORE="unbounded")
        if self.options.host:
            return
        self.took_part(part)
        # Where plain was chosen for both passes, both processes make the same calls.
        chosen = [line["spec"].removesuffix(" parameters=short") for line in self.decisions(part) if is_ours(line["chosen"])]
        by_us = lambda case: any(spec.endswith(f" {spec_of(case)}") for spec in chosen)  # noqa: E731
        all_ratios = sorted((ours["step"] / plain["step"], plain["case"]) for plain, ours in pairs)
        ratios = [(ratio, case) for ratio, case in all_ratios if by_us(case)]
        if not ratios:
            self.verdict("WRONG", f"{part} shapes", "none ran on our kernels")
            return
        if same := [ratio for ratio, case in all_ratios if not by_us(case)]:
            self.verdict("ok", "the scatter", f"{len(same)} that ran plain's both times took {same[0]:.3f} to {same[-1]:.3f}")
        slower = [f"{case} {ratio:.3f}" for ratio, case in ratios if ratio > MOST_TIME]
        seen = (f"{len(ratios)} of {len(pairs)} on our kernels, {ratios[0][0]:.2f} to {ratios[-1][0]:.2f} of plain's time, "
                f"median {statistics.median(ratio for ratio, _ in ratios):.2f}")  # fmt: skip
        self.judge(not slower, f"{part} shapes", "; ".join([seen, *slower]))

    def sanitizer(self):
        sanitizer = self.find_sanitizer()
        # Only our kernels, which keeps it quick.
        ours = [word for name in ("normalize", "differentiate", "infer")
                for word in ("--kernel-name", f"kernel_substring={name}")]  # fmt: skip
        for tool in ("memcheck", "initcheck") if sanitizer else ():
            log = self.out / f"{tool}.log"
            command = sanitizing(sanitizer, tool, log, "--target-processes", "all", *ours)
            for part in ("repeat", "group-repeat"):
                if self.case_lines("ours", part, 150, "--runs", 2, command=command, **FORCED):
                    self.judge(machine.is_clean(log.read_text()), f"{tool}, {part}", last_line(log.read_text()))


def spec_of(case):
    """The part of a pass's text that is a case's: type, images, channels, plane, and groups if there are some."""
    kind, sizes, *groups = case.replace(" in ", " ").split()
    images, channels, *plane = map(int, sizes.split("x"))
    return f"{kind} images={images} channels={channels} plane={math.prod(plane)}" + "".join(f" groups={its}" for its in groups)
