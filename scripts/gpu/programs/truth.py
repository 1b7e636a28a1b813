"""Runs cases of a family of scripts/gpu/sampler, and prints a line of JSON for each: errors, and which calls had other bits.

    truth.py FAMILY --seed S --setting L --seconds T        the setting's cases from --first on, until time is over
    truth.py FAMILY --seed S --setting L --asked            those whose numbers come on standard input

A case's calls are made on two data sets in turns, in the same memory: a value that a call before has left is another
set's. Then the first set comes again beside another kernel. What a call returned is filled with NaN before the next one.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from gpu.sampler.families import AGAIN, EAGER, FAMILIES, is_ours  # noqa: E402
from harness.results import Tail  # noqa: E402

# A process without the library only shows its errors, so it makes fewer calls.
FEW_CALLS = 4
# The kernel beside: products of matrices of this size.
BESIDE_SIZE, BESIDE_COUNT = 2048, 12
# The bytes that PyTorch may keep between cases, and the share of the device's memory that it may take for one.
MOST_RESERVED, MOST_MEMORY = 1 << 30, 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--setting", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first number [0]")
    parser.add_argument("--last", type=int, help="the last one [none]")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--asked", action="store_true")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    options = parser.parse_args()
    begin = time.monotonic()
    family, device = FAMILIES[options.family], Device(options.device)
    its = Report(family)
    # A process that is asked for single cases is a rival. It makes few calls, unless it repeats our own process.
    few = options.asked and family.rival != AGAIN
    for number in asked() if options.asked else numbers(options, len(family.settings)):
        if time.monotonic() - begin > options.seconds:
            break
        say({"begin": number})
        started, line = time.monotonic(), {"case": number}
        case = family.case(options.family, options.seed, number, options.device)
        try:
            line |= measured(family, case, device, few) | its.chosen()
        except Exception as error:  # noqa: BLE001
            line["failed"] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:300]
        say(line | {"seconds": time.monotonic() - started})
        device.make_room()
        if "failed" in line and not device.is_well():
            sys.exit("the device's context is broken")


def numbers(options, settings):
    number = options.first + (options.setting - options.first) % settings
    while options.last is None or number <= options.last:
        yield number
        number += settings


def asked():
    for text in sys.stdin:
        yield int(text)


def say(line):
    print(json.dumps(line), flush=True)


class Device:
    """Streams, CUDA graphs and waiting, where there are such."""

    def __init__(self, kind):
        self.type, self.is_gpu = kind, kind == "cuda"
        self.torch = torch.device(kind)
        if self.is_gpu:
            # PyTorch's benchmark mode takes as much for a workspace as there is, from all processes beside.
            torch.cuda.set_per_process_memory_fraction(MOST_MEMORY)
            # The first call makes the context.
            self.other, self.side = torch.cuda.Stream(), torch.cuda.Stream()
            self.factor = torch.randn(BESIDE_SIZE, BESIDE_SIZE, device=kind)
            self.product = torch.empty_like(self.factor)

    def wait(self):
        if self.is_gpu:
            torch.cuda.synchronize()

    def make_room(self):
        """Many processes share the device's memory."""
        if self.is_gpu and self.is_well() and torch.cuda.memory_reserved() > MOST_RESERVED:
            torch.cuda.empty_cache()

    def is_well(self):
        try:
            self.wait()
            return True
        except RuntimeError:
            return False

    def on_side(self):
        """A stream that is not the default one."""
        if not self.is_gpu:
            return contextlib.nullcontext()
        self.side.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.side)

    def keep_busy(self):
        """Launches another kernel on another stream, which runs beside what follows."""
        if self.is_gpu:
            self.other.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.other):
                for _ in range(BESIDE_COUNT):
                    torch.mm(self.factor, self.factor, out=self.product)


class Report(Tail):
    """What the library has chosen, by the lines that it adds to UCUDNN_REPORT."""

    def __init__(self, family):
        super().__init__(os.environ.get("UCUDNN_REPORT"))
        self.event, *self.fields = family.event or (None,)

    def chosen(self):
        """`ours`: the number of choices since the last case that were our kernels; `chosen`: their names."""
        if not self.event or not self.path or not self.path.exists():
            return {}
        names = [line.get(name) for line in self.news() if line.get("event") == self.event for name in self.fields]
        return {"ours": sum(map(is_ours, names)), "chosen": sorted({str(name) for name in names})}


def measured(family, case, device, few):
    """The errors of a case's calls."""
    subjects = __import__(f"subjects.{family.subject}", fromlist=["Subject"])
    way = case.get("way", "eager") if device.is_gpu else "eager"
    subject = subjects.Subject(case, device.torch)
    if getattr(subject, "is_skipped", False):
        return {"skipped": "a number is too near to where a derivative jumps"}
    try:
        if way == "eager":
            calls = Calls(family, case, subject, device)
            calls.make(few)
        else:
            with device.on_side():
                calls = Calls(family, case, subject, device)
                calls.make(few, captured=way == "captured")
        device.wait()
        return calls.line(few)
    finally:
        if hasattr(subject, "close"):
            subject.close()


class Calls:
    """The calls of a case: their errors, and how their bits differ from those of the first call on the same data."""

    def __init__(self, family, case, subject, device):
        self.family, self.case, self.subject, self.device = family, case, subject, device
        self.exact = [{name: its.detach() for name, its in subject.exact(which).items()} for which in range(2)]
        self.sizes = [self.magnitudes(which) for which in range(2)]
        #: Of each tensor: pairs of errors, and the calls that they are of.
        self.errors, self.at = {}, {}
        self.first, self.different, self.nonzero = [None, None], [], []
        self.last = {}

    def magnitudes(self, which):
        """The root mean square that each tensor's errors are taken of."""
        found = {}
        for name, exact in self.exact[which].items():
            own = exact.double().square().mean().sqrt() if exact.numel() else torch.zeros((), device=exact.device)
            least = self.subject.magnitude(name, which)
            # Where the result itself is larger, its own rounding counts.
            if least is not None:
                own = torch.maximum(own, torch.as_tensor(least, device=own.device))
            found[name] = own.clamp_min(1e-30)
        return found

    def make(self, few, captured=False):
        count = self.case.get("calls", 3)
        count = min(count, FEW_CALLS) if few else count
        run = self.subject.run
        if captured:
            for call in range(count):
                self.call(run, call % 2, f"call {call} before capturing")
            self.last = {}
            self.device.wait()
            graph = torch.cuda.CUDAGraph()
            self.subject.renew(0)
            with torch.cuda.graph(graph, stream=self.device.side):
                static = run()
            # A replay writes where the captured call would have.
            self.last, count = static, 3

            def run():
                graph.replay()
                return static

        for call in range(count):
            self.call(run, call % 2, f"{'replay' if captured else 'call'} {call}")
        if count % 2 == 0:
            self.call(run, 0, "the last call")
        self.call(run, 0, "the call beside another kernel", beside=True)

    def call(self, run, which, at, beside=False):
        for tensor in self.last.values():
            tensor.fill_(float("nan"))
        self.last = {}
        self.subject.renew(which)
        if beside:
            self.device.keep_busy()
        found = {name: tensor.detach() for name, tensor in run().items()}
        self.look(found, which, at)
        self.last = found

    def look(self, found, which, at):
        if hasattr(self.subject, "cut"):
            found, behind = self.subject.cut(found)
            said = "is not zero behind its last row"
            self.nonzero += [(f"{name} {said} ({at})", (rows != 0).any()) for name, rows in behind]
        for name, exact in self.exact[which].items():
            size = self.sizes[which][name]
            off = (found[name].double() - exact).abs()
            norm = off.square().mean().sqrt() / size if off.numel() else off.sum()
            worst = off.max() / size if off.numel() else off.sum()
            self.errors.setdefault(name, []).append(torch.stack([norm, worst]))
            self.at.setdefault(name, []).append(at)
        if self.first[which] is None:
            self.first[which] = {name: tensor.clone() for name, tensor in found.items()}
        else:
            pairs = ((found[name], first) for name, first in self.first[which].items())
            same = torch.stack([(_bits(now) == _bits(first)).all() for now, first in pairs]).all()
            self.different.append((at, ~same))

    def line(self, few):
        """The case's line."""
        tensors = {}
        for name, errors in self.errors.items():
            # NaN is larger than all.
            pairs = torch.nan_to_num(torch.stack(errors).double(), nan=float("inf")).tolist()
            furthest = max(range(len(pairs)), key=lambda place: pairs[place][0])
            elements = self.exact[0][name].numel()
            tensors[name] = {"norm": max(pair[0] for pair in pairs), "worst": max(pair[1] for pair in pairs),
                             "at": self.at[name][furthest], "elements": elements} | self.subject.traits(name)  # fmt: skip
        found = {"tensors": tensors, "different": [at for at, differs in self.different if bool(differs)],
                 "wrong": [words for words, is_so in self.nonzero if bool(is_so)] + getattr(self.subject, "wrong", [])}  # fmt: skip
        if self.family.rival == EAGER and not few:
            found["rival"] = {"tensors": self.rival()}
        if self.family.rival == AGAIN:
            digest = hashlib.sha256()
            for name in sorted(self.first[0]):
                digest.update(bytes(_bits(self.first[0][name]).flatten().contiguous().view(torch.uint8).cpu().tolist()))
            found["digest"] = digest.hexdigest()[:16]
        return found

    def rival(self):
        """Eager PyTorch's errors."""
        worst = {}
        for which in range(2):
            for name, its in self.subject.rival(which).items():
                off = (its.detach().double() - self.exact[which][name]).abs() / self.sizes[which][name]
                norm = off.square().mean().sqrt() if off.numel() else off.sum()
                worst.setdefault(name, []).append(torch.stack([norm, off.max() if off.numel() else off.sum()]))
        errors = {name: torch.nan_to_num(torch.stack(its), nan=float("inf")).amax(0).tolist() for name, its in worst.items()}
        return {name: {"norm": norm, "worst": furthest} for name, (norm, furthest) in errors.items()}


def _bits(tensor):
    """The same bits as whole numbers: NaN equals itself."""
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.contiguous().view(whole)


if __name__ == "__main__":
    main()
