"""PyTorch's own samples of convolutions, normalizations and recurrent networks, plain or under the library: results, gradients
and gradients of gradients beside double precision, and what is raised. A JSON line for each sample.

    python sample_inputs.py [--device cpu] [--part 1/4] [--rounds N] [--until TIME] [--only NAME]

The samples are those that PyTorch's wheel carries for PyTorch's tests (OpInfo, ModuleInfo). They have the same numbers in
each process, so that lines of two processes can be compared. A later line of a sample, of a later round, replaces its earlier
ones. Ends with 2 where a package is missing that PyTorch's tests need.
"""

import argparse
import contextlib
import copy
import json
import math
import sys
import time
import zlib

import torch
from batch_norm import begin
from harness.calls import TYPES
from torch.nn.utils.rnn import PackedSequence

try:
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import ModuleErrorEnum, module_db
    from torch.testing._internal.common_utils import noncontiguous_like
except ModuleNotFoundError as error:
    print(f"PyTorch's samples need a package that is not installed: {error.name}", file=sys.stderr)
    raise SystemExit(2) from None

KINDS = TYPES | {"double": torch.float64}
# What the names of operators and modules have in them, without "_".
CONVOLUTIONS, NORMS, RECURRENT = ("conv",), ("batchnorm", "groupnorm", "instancenorm"), ("rnn", "gru", "lstm")
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
LAYOUTS = ("contiguous", "noncontiguous", "channels last")
# The steps and layers that errors of a sample of a recurrent network grow through, at the most.
CHAIN = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--part", default="1/1", help="every N-th group of samples, from the K-th on: K/N [%(default)s]")
    parser.add_argument("--rounds", type=int, default=1, help="how often each sample runs [%(default)s]")
    parser.add_argument("--until", type=float, default=math.inf, help="no sample begins after this time of the monotonic clock")
    parser.add_argument("--only", default="", help="the samples whose name has this in it [all]")
    options = parser.parse_args()
    begin(options.device)
    place, parts = map(int, options.part.split("/"))
    found = {}
    for number in range(options.rounds):
        for sample in samples(options, place - 1, parts) if number == 0 else [its for its, _ in found.values()]:
            if time.monotonic() > options.until:
                say({"cut": sample.name})
                return
            say({"begin": sample.name})
            with tf32(" tf32 " in sample.name):
                line = sample.line()
            _, before = found.get(sample.name, (None, None))
            found[sample.name] = sample, worst(before, line)
            if found[sample.name][1] != before:
                say(found[sample.name][1])


@contextlib.contextmanager
def tf32(is_allowed):
    """As calls.allow_tf32, which PyTorch's tests forbid."""
    torch.backends.cuda.matmul.allow_tf32 = is_allowed
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=is_allowed):
        yield


def say(line):
    print(json.dumps(line), flush=True)


def worst(before, now):
    """One line of two of a sample, with the larger errors."""
    if before is None:
        return now
    line = copy.deepcopy(before)
    seen = now["outcomes"] if now.get("form") == line.get("form") else [*now["outcomes"], "results in another form"]
    line["outcomes"] += [outcome for outcome in seen if outcome not in line["outcomes"]]
    for name, tensor in now["tensors"].items():
        its = line["tensors"].setdefault(name, tensor)
        for measure in ("norm", "worst"):
            its[measure] = max(its[measure], tensor[measure])
    return line


def samples(options, place, parts):
    """The samples of a part. Those of a group are of one operator or module, and of one type."""
    groups = [(info, kind) for info in infos() for kind in kinds(info, options.device)]
    for info, kind in groups[place::parts]:
        name = f"{named(info)} {kind}"
        drawn = of_module if is_module(info) else of_operator
        yield from (sample for sample in drawn(info, name, kind, options.device) if options.only in sample.name)


def seed_of(name):
    """The same in each process."""
    return zlib.crc32(name.encode())


def is_module(info):
    return hasattr(info, "module_cls")


def named(info):
    variant = "" if is_module(info) or not info.variant_test_name else f" {info.variant_test_name}"
    return f"{info.name}{variant}"


def is_of(info, families):
    return any(family in info.name.lower().replace("_", "") for family in families)


def infos():
    return [info for info in (*op_db, *module_db) if is_of(info, (*CONVOLUTIONS, *NORMS, *RECURRENT))]


def kinds(info, device):
    """The types to run. Modules run in types of two bytes, too, which their infos leave out."""
    taken = set(TYPES.values()) | {torch.float64} if is_module(info) else info.supported_dtypes(device)
    rounds = device == "cuda" and is_of(info, (*CONVOLUTIONS, *RECURRENT))
    return [kind for kind, its in KINDS.items() if its in taken and (kind != "tf32" or rounds)]


def of_operator(info, name, kind, device):
    torch.manual_seed(seed_of(name))
    drawn = list(info.reference_inputs(device, KINDS[kind], requires_grad=info.supports_autograd))
    for number, sample in enumerate(drawn):
        arguments = [sample.input, *sample.args], sample.kwargs
        process = sample.output_process_fn_grad
        run = lambda args, kwargs, process=process: process(operator(info)(*args, **kwargs))  # noqa: E731
        for layout in layouts(arguments):
            yield Sample(f"{name} {layout} {number}", info, kind, layout, laid_out(arguments, layout), run)
    if info.error_inputs_func is not None and kind == "float":
        for number, error in enumerate(info.error_inputs(device)):
            its = error.sample_input
            yield Refused(f"{name} refused {number}", lambda its=its: operator(info)(its.input, *its.args, **its.kwargs))


def operator(info):
    """The operator, of a variant as its test runs it."""
    if info.variant_test_name != "without_cudnn":
        return info.op

    def run(*args, **kwargs):
        with torch.backends.cudnn.flags(enabled=False):
            return info.op(*args, **kwargs)

    return run


def of_module(info, name, kind, device):
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(seed_of(name))
        drawn = info.module_inputs_func(info, device=device, dtype=KINDS[kind], requires_grad=True, training=training)
        mode = "training" if training else "evaluation"
        for number, sample in enumerate(drawn):
            made, forward = sample.constructor_input, sample.forward_input
            module = info.module_cls(*made.args, **made.kwargs).train(training)
            arguments = forward.args, forward.kwargs
            if info.is_lazy:
                inputs = mapped(lambda tensor: tensor.detach().cpu().float(), arguments)
                module(*inputs[0], **inputs[1])
            for layout in layouts(arguments):
                its = copy.deepcopy(module)
                its = its.to(device, KINDS[kind])
                if layout == "channels last":
                    for parameter in its.parameters():
                        parameter.data = in_layout(parameter.data, layout)
                yield Sample(f"{name} {layout} {mode} {number}", info, kind, layout, laid_out(arguments, layout), module=its)
        if info.module_error_inputs_func and kind == "float":
            refused = info.module_error_inputs_func
            drawn = refused(info, device=device, dtype=KINDS[kind], requires_grad=True, training=training)
            for number, error in enumerate(drawn):
                yield Refused(f"{name} refused {mode} {number}", lambda error=error: run_refused(info, error, device, kind))


def run_refused(info, error, device, kind):
    made, forward = error.module_error_input.constructor_input, error.module_error_input.forward_input
    module = info.module_cls(*made.args, **made.kwargs)
    if error.error_on == ModuleErrorEnum.FORWARD_ERROR:
        module.to(device, KINDS[kind])(*forward.args, **forward.kwargs)


def layouts(arguments):
    has_last = any(tensor.dim() in LAST for tensor in tensors(arguments))
    return LAYOUTS if has_last else LAYOUTS[:2]


def laid_out(arguments, layout):
    """The arguments, each tensor in a layout."""
    return mapped(lambda tensor: in_layout(tensor.detach(), layout).requires_grad_(tensor.requires_grad), arguments)


def in_layout(tensor, layout):
    if layout == "noncontiguous":
        return noncontiguous_like(tensor)
    if layout == "channels last" and tensor.dim() in LAST:
        return tensor.contiguous(memory_format=LAST[tensor.dim()])
    return tensor


def mapped(change, value):
    """A value with each tensor of floats changed."""
    if isinstance(value, torch.Tensor):
        return change(value) if value.is_floating_point() else value
    if isinstance(value, PackedSequence):
        return PackedSequence(change(value.data), *value[1:])
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(change, its) for its in value)
    if isinstance(value, dict):
        return {key: mapped(change, its) for key, its in value.items()}
    return value


def tensors(value):
    """The tensors of floats in a value, in a fixed order."""
    found = []
    mapped(lambda tensor: found.append(tensor) or tensor, value)
    return found


def copied(tensor):
    """A leaf with the same numbers and strides, and in memory that is aligned as the other's."""
    with torch.no_grad():
        memory = tensor.untyped_storage().clone()
        its = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return its.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride()).requires_grad_(tensor.requires_grad)


def in_double(tensor):
    return tensor.detach().cpu().double().clone().requires_grad_(tensor.requires_grad)


def outcome(stage, error):
    return f"{stage}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


class Refused:
    """A call that PyTorch refuses."""

    def __init__(self, name, run):
        self.name, self.run = name, run

    def line(self):
        try:
            self.run()
        except Exception as error:  # noqa: BLE001
            return {"case": self.name, "outcomes": [outcome("refused", error)], "tensors": {}}
        return {"case": self.name, "outcomes": ["nothing was raised"], "tensors": {}}


class Sample:
    """A call of an operator or a module, its results, their gradients and the gradients of these."""

    def __init__(self, name, info, kind, layout, arguments, run=None, module=None):
        self.name, self.kind, self.layout = name, kind, layout
        self.arguments, self.run, self.module = arguments, run, module
        self.is_twice = info.supports_gradgrad
        self.state = module and {name: its.detach().clone() for name, its in module.state_dict().items()}
        self.is_norm, self.is_recurrent = is_of(info, NORMS), is_of(info, RECURRENT)
        self.exact = None

    def line(self):
        if self.exact is None:
            self.compute_exact()
        if self.module:
            with torch.no_grad():
                for name, its in self.module.state_dict().items():
                    its.copy_(self.state[name])
        done = Pass(self, mapped(copied, self.arguments), self.module, self.layout)
        # On a GPU some operators save other statistics than on a CPU.
        compared = [name for name, its in done.found.items() if name in self.exact and its.shape == self.exact[name].shape]
        line = {"case": self.name, "outcomes": [done.raised], "form": {name: formed(its) for name, its in done.found.items()},
                "tensors": {name: self.entry(name, done.found[name]) for name in compared}}  # fmt: skip
        for tensor in done.found.values():
            # What the next call does not write shows.
            with contextlib.suppress(RuntimeError):
                tensor.fill_(math.nan)
        return line

    def compute_exact(self):
        """All tensors in double precision."""
        inputs = mapped(in_double, self.arguments)
        module = self.module and copy.deepcopy(self.module).cpu().double()
        self.exact = Pass(self, inputs, module, "contiguous").found
        self.depth = max((its.numel() for its in (*tensors(inputs), *self.exact.values())), default=1)
        self.sizes = magnitudes(self.exact, tensors(inputs)[0]) if self.is_norm else {}

    def entry(self, name, found):
        """A tensor's errors, with what sampler/verdict.py needs to judge them."""
        exact = self.exact[name]
        off = (found.cpu().double() - exact).abs()
        if exact.numel():
            size = exact.square().mean().sqrt().clamp_min(max(1e-30, self.sizes.get(name, 0.0)))
            errors = off.square().mean().sqrt() / size, off.max() / size
        else:
            errors = 0.0, 0.0
        # NaN is larger than all.
        norm, worst = (math.inf if math.isnan(its) else its for its in map(float, errors))
        return {"norm": norm, "worst": worst, "at": "the worst round", "elements": exact.numel(), "precision": self.kind,
                "depth": self.depth, "chain": CHAIN if self.is_recurrent else 1, "goes_by_plain": not self.is_recurrent}  # fmt: skip


def magnitudes(exact, x):
    """What the gradients of a normalization are sums of, where these cancel: dx of two numbers is all but 0."""
    x, y = x.detach(), exact.get("y0")
    if y is None or y.numel() < 2:
        return {}
    gain = float(y.std() / x.std())
    found = {"d argument 0": gain, "dd argument 0": gain / float(x.std()), "dd dy0": gain}
    for name, its in exact.items():
        if name.startswith("d") and name not in found and its.numel():
            found[name] = (gain if name.startswith("dd") else 1.0) * math.sqrt(x.numel() / its.numel())
    return found


def formed(tensor):
    """Type, sizes and strides; those of one element mean nothing."""
    strides = [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
    return [str(tensor.dtype), list(tensor.shape), strides if tensor.numel() else []]


class Pass:
    """One call with its gradients: what was found until it ended, and what was raised, if anything."""

    def __init__(self, sample, arguments, module, layout):
        self.sample, self.layout, self.found, self.raised = sample, layout, {}, None
        self.stage = "forward"
        try:
            self.make(arguments, module)
        except Exception as error:  # noqa: BLE001
            self.raised = outcome(self.stage, error)

    def make(self, arguments, module):
        args, kwargs = arguments
        y = module(*args, **kwargs) if module else self.sample.run(args, kwargs)
        outputs = tensors(y)
        leaves = {f"argument {place}": its for place, its in enumerate(tensors(arguments))}
        if module:
            leaves |= dict(module.named_parameters())
            leaves |= {name: its for name, its in module.named_buffers() if its.is_floating_point()}
        self.add({f"y{place}": its for place, its in enumerate(outputs)})
        # A call may write to what has no gradient: running statistics.
        self.add({f"{name} afterwards": its for name, its in leaves.items() if not its.requires_grad})
        leaves = {name: its for name, its in leaves.items() if its.requires_grad}
        outputs = [its for its in outputs if its.requires_grad]
        if not outputs or not leaves:
            return
        self.stage = "backward"
        is_twice = self.sample.is_twice
        dy = [self.drawn(its, place, is_twice) for place, its in enumerate(outputs)]
        dx = self.gradients(outputs, leaves, dy, "", is_twice)
        dx = [its for its in dx if its.requires_grad]
        if not dx:
            return
        self.stage = "second backward"
        leaves |= {f"dy{place}": its for place, its in enumerate(dy)}
        self.gradients(dx, leaves, [self.drawn(its, 100 + place) for place, its in enumerate(dx)], "d", False)

    def gradients(self, outputs, leaves, dy, order, is_twice):
        found = torch.autograd.grad(outputs, list(leaves.values()), dy, allow_unused=True, create_graph=is_twice)
        found = {f"d{order} {name}": its for name, its in zip(leaves, found, strict=True) if its is not None}
        self.add(found)
        return list(found.values())

    def drawn(self, tensor, seed, requires_grad=False):
        """A gradient of a tensor, with the same numbers on every device."""
        normal = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
        normal = normal.to(KINDS[self.sample.kind]).to(tensor)
        return in_layout(normal, self.layout).detach().requires_grad_(requires_grad)

    def add(self, found):
        self.found |= {name: its.detach() for name, its in found.items()}


main()
