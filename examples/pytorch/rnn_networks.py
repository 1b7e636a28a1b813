"""Training steps of programs with LSTMs, plain and under libucudnn.so (UCUDNN_RNN_TRAINING=auto, once that has chosen).

    python examples/pytorch/rnn_networks.py --shim target/release/libucudnn.so

word-lm   a word language model: 2 layers of 650 units, 10,000 words, 20 rows of 35 words, dropout 0.5
awd-lstm  a larger one like AWD-LSTM: 3 layers of 1,150 units, 80 rows of 70 words, dropout 0.3
speech    classes of speech's frames: 5 layers of 320 units in both directions, 32 packed sequences of 500 to 190 steps
ppo-128   PPO's clipped loss of policies with 128 units, 16 rows of 128 steps, between small layers
ppo-256   the same with 256 units and 8 rows

Each runs in TF32, half and bfloat16: model, data and gradients are of that type, losses are in float. A step is
forward, loss, backward, clipping and Adam. A line for each says, plain and ours:

step      milliseconds of a step, and how many times as fast ours is
captured  the same replayed as a CUDA graph; not of packed sequences, whose lengths are on the host
rnn       milliseconds of the LSTM alone, forward and backward
memory    the most MiB that PyTorch had handed out during these steps
loss      the loss after 20 steps from the same seed; the command fails if they differ by more than rounding can do

A step has a floor, and memory may be at most 1.01 times plain's. What does not hold this is marked "below its floor",
and fails with --floors. --processes times steps alone, in so many processes of each kind, which take turns: a step is the median of
theirs. --ddp trains an LSTM of 2 layers under DistributedDataParallel on two GPUs instead, for 200
steps on our kernels (UCUDNN_RNN_TRAINING=force), and fails if a loss differs, the ranks' weights do, or there is no
end. UCUDNN_DATABASE holds where it is set.
"""

import argparse
import contextlib
import gc
import itertools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import finds_harness  # noqa: F401
from harness import arguments, turns
from harness.budget import Budget
from harness.children import Child, Ended, python
from harness.columns import MEBI, aligned, number
from harness.results import decisions
from rnn_training import FORCED, IN_TURN, child, chosen_by, chosen_since, is_ours, kinds_of, preloaded, results_of, said

PRECISIONS = ("tf32", "half", "bfloat16")
# The steps of a process before its first turn.
WARM_UP = 2
# The steps before losses are compared, and how far they may be apart.
STEPS, TOLERANCES = 20, {"tf32": 1e-3, "half": 1e-2, "bfloat16": 3e-2}
# The most memory, in times plain's.
MOST_MEMORY = 1.01
TIMES = {"step_ms": "step", "captured_ms": "captured", "rnn_ms": "rnn"}
SEED = 7
# The steps under DistributedDataParallel, those before time is taken, its ranks, and the seconds in which they must end.
DDP_STEPS, DDP_FIRST, RANKS, DDP_SECONDS = 200, 50, 2, 240


@dataclass(frozen=True)
class Network:
    name: str
    program: str
    layers: int
    hidden: int
    batch: int
    steps: int
    # Features of an input; words, classes or actions.
    width: int
    outputs: int
    dropout: float
    # How many times as fast a step is to be.
    floors: dict

    @property
    def is_packed(self):
        return self.program == "speech"

    @property
    def lengths(self):
        """The steps of each row, if it is packed."""
        return [self.steps - row * (self.steps * 62 // 100) // (self.batch - 1) for row in range(self.batch)]

    def tiny(self):
        return replace(self, hidden=16, batch=4, steps=12, width=16, outputs=10)


def floors(tf32, half, bfloat16):
    return {"tf32": tf32, "half": half, "bfloat16": bfloat16}


NETWORKS = (
    Network("word-lm", "language", 2, 650, 20, 35, 650, 10000, 0.5, floors(1.3, 1.3, 1.3)),
    Network("awd-lstm", "language", 3, 1150, 80, 70, 400, 10000, 0.3, floors(1.4, 1.4, 1.4)),
    Network("speech", "speech", 5, 320, 32, 500, 80, 46, 0.0, floors(4, 4, 4)),
    Network("ppo-128", "ppo", 1, 128, 16, 128, 64, 6, 0.0, floors(1.0, 1.0, 1.5)),
    Network("ppo-256", "ppo", 1, 256, 8, 128, 64, 6, 0.0, floors(1.5, 1.0, 1.5)),
)


def cases(only="*"):
    """Networks and precisions, by name."""
    named = {f"{network.name}/{precision}": (network, precision)
             for network, precision in itertools.product(NETWORKS, PRECISIONS)}  # fmt: skip
    return {name: its for name, its in named.items() if fnmatchcase(name, only)}


def lstm(network, width, torch):
    return torch.nn.LSTM(width, network.hidden, network.layers, dropout=network.dropout, bidirectional=network.is_packed)


def language(network, torch):
    """A language model, random words, and the loss of the next word."""
    nn, functional = torch.nn, torch.nn.functional
    model = nn.ModuleDict({
        "embedding": nn.Embedding(network.outputs, network.width),
        "rnn": lstm(network, network.width, torch),
        "output": nn.Linear(network.hidden, network.outputs),
    })  # fmt: skip

    def loss(words):
        x = functional.dropout(model["embedding"](words[:-1]), network.dropout)
        y, _ = model["rnn"](x)
        found = model["output"](functional.dropout(y, network.dropout))
        return functional.cross_entropy(found.flatten(0, 1).float(), words[1:].flatten())

    return model, [torch.randint(network.outputs, (network.steps + 1, network.batch))], loss


def speech(network, torch):
    """An acoustic model, random features of padded sequences, and the loss of each frame's class."""
    nn, pack = torch.nn, torch.nn.utils.rnn.pack_padded_sequence
    output = nn.Linear(2 * network.hidden, network.outputs)
    model = nn.ModuleDict({"rnn": lstm(network, network.width, torch), "output": output})
    size = (network.steps, network.batch)

    def loss(features, classes):
        y, _ = model["rnn"](pack(features, network.lengths))
        return nn.functional.cross_entropy(output(y.data).float(), pack(classes, network.lengths).data)

    return model, [torch.randn(*size, network.width), torch.randint(network.outputs, size)], loss


def ppo(network, torch):
    """A policy and its values, a random rollout, and PPO's loss."""
    nn, size = torch.nn, (network.steps, network.batch)
    model = nn.ModuleDict({
        "encoder": nn.Sequential(nn.Linear(network.width, network.hidden), nn.Tanh()),
        "rnn": lstm(network, network.hidden, torch),
        "head": nn.Sequential(nn.Linear(network.hidden, 64), nn.Tanh(), nn.Linear(64, network.outputs + 1)),
    })  # fmt: skip

    def loss(observations, actions, before, advantages, returns):
        y, _ = model["rnn"](model["encoder"](observations))
        found = model["head"](y).float()
        log, values = found[..., :-1].log_softmax(-1), found[..., -1]
        ratio = (log.gather(-1, actions[..., None])[..., 0] - before.float()).exp()
        gained = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        entropy = -(log.exp() * log).sum(-1).mean()
        return -gained + 0.5 * (values - returns).square().mean() - 0.01 * entropy

    actions, before = torch.randint(network.outputs, size), torch.full(size, 1 / network.outputs).log()
    return model, [torch.randn(*size, network.width), actions, before, torch.randn(size), torch.randn(size)], loss


PROGRAMS = {"language": language, "speech": speech, "ppo": ppo}


class Training:
    """The training of a program, from its seed on. A call is a step, and returns its loss."""

    def __init__(self, network, precision, device, torch):
        from harness import calls

        torch.manual_seed(SEED)
        model, data, self.loss = PROGRAMS[network.program](network, torch)
        data_type = calls.TYPES[precision]
        self.model = model.to(device, data_type)
        self.data = [tensor.to(device, data_type if tensor.is_floating_point() else None) for tensor in data]
        # The squares of small gradients are 0 in half.
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-2 if precision == "half" else 1e-8,
                                          fused=True, capturable=device == "cuda")  # fmt: skip
        self.clip = torch.nn.utils.clip_grad_norm_

    def __call__(self):
        self.optimizer.zero_grad()
        loss = self.loss(*self.data)
        loss.backward()
        self.clip(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def alone(training, layout, torch):
    """Forward and backward of the LSTM alone, on what the program gives it."""
    from recurrent import flat

    rnn, seen = training.model["rnn"], []
    hook = rnn.register_forward_hook(lambda _, given, result: seen.append((given[0], flat(result, layout)[0])))
    training.loss(*training.data)
    hook.remove()
    [(x, y)] = seen
    x, dy = x if layout == "packed" else x.detach(), torch.randn_like(y)

    def both():
        rnn.zero_grad()
        flat(rnn(x), layout)[0].backward(dy)

    return both


def measure(network, precision, device, torch, step_alone=False):
    """The loss, times and memory of a program."""
    from harness.calls import allow_tf32
    from recurrent import graphed, timed
    from rnn_passes import settle

    # In types of 2 bytes this changes nothing.
    allow_tf32(True)
    is_cuda = device == "cuda"
    most = IN_TURN if step_alone else 120
    found = {"chosen": settle(Training(network, precision, device, torch), most) if is_cuda else None}
    training = Training(network, precision, device, torch)
    for _ in range(STEPS):
        loss = training()
    found["loss"] = loss.item()
    if is_cuda:
        torch.cuda.reset_peak_memory_stats()
    found["step_ms"] = timed(training, device)
    if is_cuda:
        found["peak"] = torch.cuda.max_memory_allocated()
    if step_alone:
        return found
    found["rnn_ms"] = timed(alone(training, "packed" if network.is_packed else "seq", torch), device)
    if is_cuda and not network.is_packed:
        try:
            found["captured_ms"] = graphed(training)
        except RuntimeError as error:
            found["not_captured"] = str(error).splitlines()[0]
    return found


def run(options):
    """Prints a line for each case."""
    import torch

    if options.asked:
        # What these programs load is loaded before the first turn.
        for network, precision in wanted_of(options).values():
            training = Training(network.tiny(), precision, options.device, torch)
            for _ in range(WARM_UP):
                training()
    for name in turns.asked() if options.asked else options.run:
        network, precision = cases()[name]
        network = network.tiny() if options.tiny else network
        found = measure(network, precision, options.device, torch, step_alone=options.asked)
        print(json.dumps({"case": name} | found), flush=True)
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()


def apart(plain, ours):
    """How far a loss is from plain's."""
    return abs(plain - ours) / max(abs(plain), 1e-3)


class Row:
    """A case: plain's figures and ours, None if that process failed."""

    def __init__(self, name, plain, ours):
        self.name, self.plain, self.ours = name, plain, ours
        self.network, self.precision = cases()[name]

    def faster(self, what):
        """How many times as fast ours is; None if it was not timed."""
        plain, ours = (its and its.get(what) for its in (self.plain, self.ours))
        return plain / ours if plain and ours else None

    @property
    def memory(self):
        """Our most memory in times plain's; None on a CPU."""
        plain, ours = (its and its.get("peak") for its in (self.plain, self.ours))
        return ours / plain if plain and ours else None

    @property
    def wrong(self):
        """What is wrong; None if nothing is."""
        if not self.plain or not self.ours:
            return f"{'ours' if self.plain else 'plain'} failed"
        off = apart(self.plain["loss"], self.ours["loss"])
        return None if off <= TOLERANCES[self.precision] else f"losses differ by {off:.1e}"

    @property
    def below(self):
        """What is below its floor."""
        found, floor = [], self.network.floors[self.precision]
        # A CPU's step is for trying the script.
        if self.memory is not None:
            if (faster := self.faster("step_ms")) < floor:
                found.append(f"step {faster:.2f} below its floor of {floor:.1f}")
            if self.memory > MOST_MEMORY:
                found.append(f"memory {self.memory:.3f} above {MOST_MEMORY}")
        return found

    @property
    def verdict(self):
        return "WRONG" if self.wrong else "below its floor" if self.below else "ok"

    @property
    def words(self):
        if not self.plain or not self.ours:
            return self.wrong
        parts = [self.wrong, *self.below]
        for what, name in TIMES.items():
            if faster := self.faster(what):
                parts.append(f"{name} {self.plain[what]:.3f} {self.ours[what]:.3f} ms ({faster:.2f})")
        if self.memory:
            parts.append(f"memory {self.plain['peak'] / MEBI:.1f} {self.ours['peak'] / MEBI:.1f} MiB ({self.memory:.3f})")
        parts.append(f"loss {self.plain['loss']:.5f} {self.ours['loss']:.5f}")
        for kind, its in (("plain", self.plain), ("ours", self.ours)):
            if "not_captured" in its:
                parts.append(f"{kind} is not captured: {its['not_captured']}")
        parts.append(", ".join(self.ours["chosen"] or ["undecided"]))
        return "; ".join(filter(None, parts))

    @property
    def cells(self):
        """The cells of the summary."""
        cells = [self.name]
        for what in TIMES:
            cells += [number((its or {}).get(what), ".3f") for its in (self.plain, self.ours)]
            cells.append(number(self.faster(what), ".2f"))
        return [*cells, f"{self.network.floors[self.precision]:.1f}", number(self.memory, ".3f"), self.verdict]

    @property
    def result(self):
        """What is kept as JSON."""
        faster = {name: self.faster(what) for what, name in TIMES.items()}
        return {"case": self.name, "plain": self.plain, "ours": self.ours, "faster": faster, "memory": self.memory,
                "wrong": self.wrong, "below": self.below}  # fmt: skip


def summary(rows):
    header = ["", *(cell for name in TIMES.values() for cell in (f"{name} ms", "ours", "faster")), "floor", "memory", ""]
    return "\n".join(aligned([header, *(row.cells for row in rows)], left=(0, len(header) - 1)))


def tried(words, more):
    """The lines of a child, by case; none if it failed, which is said."""
    try:
        return {line["case"]: line for line in child(__file__, words, more)}
    except Ended as why:
        print(f"rnn_networks: {why}", file=sys.stderr)
        return {}


def wanted_of(options):
    """The cases that are wanted, by name."""
    # PyTorch's CPU has no LSTM in types of 2 bytes.
    return {name: its for name, its in cases(options.only).items() if options.device == "cuda" or name.endswith("/tf32")}


def steps_in_turns(options):
    """Times steps in several processes of each kind. Returns the results, and whether all are as they should be."""
    names, rows, budget = list(wanted_of(options)), [], Budget(options.seconds)
    kinds = kinds_of(options, __file__, ["--device", options.device, "--only", options.only, *(["--tiny"] if options.tiny else [])])
    for name, found in turns.answers(kinds, names, lambda: budget.left):
        steps = {kind: [one["step_ms"] for one in its] for kind, its in found.items()}
        row = Row(name, *(its[-1] | {"step_ms": statistics.median(steps[kind]), "chosen": chosen_by(its)} for kind, its in found.items()))
        told = "; ".join(f"{kind} {', '.join(f'{step:.3f}' for step in its)}" for kind, its in steps.items())
        print(f"{row.verdict:5} {name}: {row.words}; {told}", flush=True)
        rows.append(row)
    if len(rows) < len(names):
        print(f"no time left for {', '.join(names[len(rows) :])}")
    wrong, below = sum(bool(row.wrong) for row in rows), sum(bool(row.below) for row in rows)
    print(f"{len(rows)} programs in {options.processes} processes of each kind, {wrong} wrong, {below} below a floor")
    return [row.result for row in rows], bool(rows) and not wrong and not (options.floors and below)


def networks(options):
    """Runs every network plain and ours. Returns the results, and whether all are as they should be."""
    wanted, rows = wanted_of(options), []
    for _, names in itertools.groupby(wanted, key=lambda name: cases()[name][0].name):
        names = list(names)
        words = [*names, "--device", options.device, *(["--tiny"] if options.tiny else [])]
        plain = tried(words, {})
        if not options.shim:
            print(*map(json.dumps, plain.values()), sep="\n", flush=True)
            continue
        # Settled times are compared.
        ours = tried(words, preloaded(options, UCUDNN_RNN_TRAINING="auto", UCUDNN_EXPLORE="unbounded"))
        for row in (Row(name, plain.get(name), ours.get(name)) for name in names):
            print(f"{row.verdict:5} {row.name}: {row.words}", flush=True)
            rows.append(row)
    wrong, below = sum(bool(row.wrong) for row in rows), sum(bool(row.below) for row in rows)
    if rows:
        print(f"\n{summary(rows)}\n\n{len(rows)} programs, {wrong} wrong, {below} below a floor")
    return [row.result for row in rows], not wrong and not (options.floors and below)


def run_rank(options):
    """One rank: trains under DistributedDataParallel, and prints its losses, the time, and whether weights are alike."""
    import torch
    import torch.distributed

    from harness.calls import is_alike

    device, is_cuda = options.device, options.device == "cuda"
    if is_cuda:
        torch.cuda.set_device(options.rank)
    # In strict float, and by steps that Adam does not make equally long, equal programs stay together.
    torch.backends.cudnn.allow_tf32 = False
    places = {"init_method": f"file://{options.rendezvous.resolve()}", "rank": options.rank, "world_size": RANKS}
    torch.distributed.init_process_group("nccl" if is_cuda else "gloo", **places)
    torch.manual_seed(SEED)
    width, batch, steps = (16, 4, 12) if options.tiny else (256, 32, 64)
    model = torch.nn.LSTM(width, width, 2).to(device)
    # Each rank has its own data.
    generator = torch.Generator().manual_seed(SEED + options.rank)
    x, target = (torch.randn(steps, batch, width, generator=generator).to(device) for _ in range(2))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    before, losses = decisions("rnn-training") or [], []
    for step in range(DDP_STEPS):
        if step == DDP_FIRST:
            if is_cuda:
                torch.cuda.synchronize()
            begin = time.perf_counter()
        optimizer.zero_grad()
        loss = (parallel(x)[0] - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    took = 1e3 * (time.perf_counter() - begin) / (DDP_STEPS - DDP_FIRST)
    weights = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    found = {"losses": losses, "ms": took, "alike": is_alike(weights), "chosen": chosen_since(before)}
    print(json.dumps(found), flush=True)
    torch.distributed.destroy_process_group()


def ranks(options, more):
    """The lines of all ranks."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--device", options.device, "--rendezvous", f"{folder}/store", *(["--tiny"] if options.tiny else [])]
        command = python(__file__, *words, "--rank")
        budget = Budget(DDP_SECONDS)
        with contextlib.ExitStack() as stack:
            # Each rank looks for its own choice.
            reports = [{"UCUDNN_REPORT": f"{folder}/report-{rank}.jsonl"} if more else {} for rank in range(RANKS)]
            children = [stack.enter_context(Child([*command, rank], os.environ | more | reports[rank]))
                        for rank in range(RANKS)]  # fmt: skip
            found = [list(child.lines(lambda: budget.left)) for child in children]
    if any(child.is_cut for child in children):
        raise Ended(f"no end after {DDP_SECONDS} s")
    if any(child.has_failed for child in children):
        raise Ended(f"ranks ended with {[child.process.returncode for child in children]}")
    return [lines[-1] for lines in found]


def compare_ranks(plain, ours, is_forced):
    """The ranks' results in words, and whether they are as they should be."""
    pairs = [pair for a, b in zip(plain, ours, strict=True) for pair in zip(a["losses"], b["losses"], strict=True)]
    offs = [apart(a, b) for a, b in pairs]
    alike = all(its["alike"] for its in (*plain, *ours))
    forced = sum(is_ours(its["chosen"]) for its in ours)
    words = (f"{DDP_STEPS} steps on {len(ours)} ranks, {plain[0]['ms']:.3f} ms plain, {ours[0]['ms']:.3f} ours; losses "
             f"differ by {max(offs):.1e}; weights are {'alike' if alike else 'NOT ALIKE'}; {forced} on our kernels")  # fmt: skip
    is_right = all(off <= TOLERANCES["tf32"] for off in offs) and alike
    return words, is_right and (not is_forced or forced == len(ours))


def ddp(options):
    """Trains on two GPUs, plain and ours. Returns the results, and whether all are as they should be."""
    what = "DistributedDataParallel"
    if options.device == "cuda":
        import torch

        if (there := torch.cuda.device_count()) < RANKS:
            print(f"skipped {what}: it takes {RANKS} GPUs, and here {'is' if there == 1 else 'are'} {there}")
            return [], True
    try:
        plain = ranks(options, {})
        if not options.shim:
            print(*map(json.dumps, plain), sep="\n")
            return plain, True
        ours = ranks(options, preloaded(options, **FORCED))
    except Ended as why:
        return [], said(what, str(why), False)
    return [{"plain": plain, "ours": ours}], said(what, *compare_ranks(plain, ours, options.device == "cuda"))


def parse_arguments(words=None):
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    arguments.add(parser, "shim", "device", "json", "report")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, for trying the script")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases like this, such as 'word-lm/*'")
    parser.add_argument("--floors", action="store_true", help="fail if a step is below its floor")
    parser.add_argument("--ddp", action="store_true", help="train on two GPUs instead")
    arguments.add(parser, "seconds", processes={"default": None})
    parser.add_argument("--run", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--asked", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rendezvous", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    arguments.check_files(parser, options, "shim")
    if not cases(options.only):
        parser.error(f"--only {options.only}: no case is like this: {', '.join(cases())}")
    if options.processes and not options.shim:
        parser.error("--processes compares with libucudnn.so: --shim is needed")
    return options


def main():
    options = parse_arguments()
    if options.run is not None:
        return run(options)
    if options.rank is not None:
        return run_rank(options)
    return results_of(options, ddp if options.ddp else steps_in_turns if options.processes else networks)


if __name__ == "__main__":
    sys.exit(main())
