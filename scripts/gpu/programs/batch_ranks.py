"""Batch normalization under DistributedDataParallel in two processes, each a rank: results, averaged gradients and running
statistics beside double precision, in which one process sees both halves of the images. Prints a line for each, and ends
with 1 if one is wrong. Where there are two GPUs, each rank has its own, and they speak by NCCL; else by gloo.

    python batch_ranks.py [--device cpu]
"""

import argparse
import contextlib
import copy
import os
import pathlib
import sys
import tempfile

import batch_norm
import torch
import torch.distributed
from harness import calls, children
from harness.budget import Budget
from looks import Looks
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, CHANNELS, RATE = 2, 3, 8, 1e-3
# Longer than any sound run.
DEADLINE = 120


class In(torch.nn.Module):
    """Modules that take numbers of a type. What comes out has the type of what came."""

    def __init__(self, kind, *modules):
        super().__init__()
        self.kind, self.inner = kind, torch.nn.Sequential(*modules)

    def forward(self, x):
        return self.inner(x.to(self.kind)).to(x.dtype)


def network(kind):
    """The same on each rank. Its parameters are floats. A second normalization would take out what the first one scales."""
    torch.manual_seed(3)
    convolution = torch.nn.Conv2d(4, CHANNELS, 3, bias=False)
    return torch.nn.Sequential(convolution, In(kind, torch.nn.BatchNorm2d(CHANNELS), torch.nn.SiLU()), torch.nn.Conv2d(CHANNELS, 6, 3))


def drawn(rank, step, *sizes):
    """A rank's part of a mini-batch, or of a gradient of its result. Ranks have unequally many images."""
    generator = torch.Generator().manual_seed(STEPS * rank + step)
    return torch.randn(4 + 2 * rank, *sizes, generator=generator)


def images_of(rank, step):
    return drawn(rank, step, 4, 9, 10)


def backward(y, rank, step, **how):
    # A gradient that is nearly the same for all images would nearly vanish in a normalization.
    y.backward(drawn(rank, step, 6, 5, 6).to(y), **how)


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


def statistics(model):
    return [held for held in model.buffers() if held.is_floating_point()]


class Exact:
    """Both ranks in double precision on the CPU: `synchronized`, or with rank 0's statistics before each step."""

    def __init__(self, is_synchronized):
        self.model, self.is_synchronized = network(torch.double).double(), is_synchronized
        self.held = [copy.deepcopy(self.model) for _ in range(RANKS)]

    def step(self, step):
        """The results of each rank; the gradients are averaged in the model."""
        self.model.zero_grad()
        halves = [images_of(rank, step).double() for rank in range(RANKS)]
        if self.is_synchronized:
            found = self.model(torch.cat(halves)).split([len(half) for half in halves])
            for rank, y in enumerate(found):
                backward(y, rank, step, retain_graph=True)
        else:
            found, first = [], copy.deepcopy(self.model.state_dict())
            for rank, half in enumerate(halves):
                self.model.load_state_dict(first)
                found.append(self.model(half))
                backward(found[rank], rank, step)
                self.held[rank].load_state_dict(self.model.state_dict())
            self.model.load_state_dict(self.held[0].state_dict())
        for gradient in gradients(self.model):
            gradient /= RANKS
        return [y.detach() for y in found]

    def statistics(self, rank):
        return statistics(self.model if self.is_synchronized else self.held[rank])

    def evaluated(self, rank, images):
        """The result with a rank's own statistics: evaluation takes no one else's."""
        with torch.no_grad():
            for mine, its in zip(statistics(self.model), self.statistics(rank), strict=True):
                mine.copy_(its)
        return self.model.eval()(images.double())


def train(looks, rank, kind, is_synchronized):
    """Steps of training, and then evaluation."""
    words = f"rank {rank}, {'SyncBatchNorm' if is_synchronized else 'BatchNorm2d'} in {kind}"
    model, exact = network(kind).to(looks.device), Exact(is_synchronized)
    if is_synchronized:
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    # PyTorch trains no SyncBatchNorm on a CPU.
    trains = not is_synchronized or looks.device == "cuda"
    parallel = DistributedDataParallel(model) if trains else None
    compare = lambda what, found, wanted: looks.look(f"{words}, {what}", [its.detach().to(kind) for its in found], wanted)  # noqa: E731
    for step in range(STEPS if trains else 0):
        y = parallel(images_of(rank, step).to(looks.device))
        wanted = exact.step(step)[rank]
        parallel.zero_grad()
        backward(y, rank, step)
        compare(f"step {step}", [y], [wanted])
        compare(f"step {step}, averaged gradients", gradients(model), gradients(exact.model))
        compare(f"step {step}, running statistics", statistics(model), exact.statistics(rank))
        with torch.no_grad():
            for its in (model, exact.model):
                for parameter in its.parameters():
                    parameter -= RATE * parameter.grad
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    looks.note(calls.is_alike(weights), f"{words}, weights", "alike on all ranks")
    images = images_of(rank, STEPS)
    y = model.eval()(images.to(looks.device))
    compare("evaluation", [y], [exact.evaluated(rank, images)])


def run_rank(options):
    is_cuda, rank = options.device == "cuda", options.rank
    each_has_one = is_cuda and torch.cuda.device_count() >= RANKS
    if is_cuda:
        torch.cuda.set_device(rank if each_has_one else 0)
    batch_norm.begin(options.device)
    calls.allow_tf32(False)
    torch.distributed.init_process_group("nccl" if each_has_one else "gloo", rank=rank, world_size=RANKS,
                                         init_method=f"file://{options.rendezvous.resolve()}")  # fmt: skip
    looks = Looks(options.device)
    for kind in (torch.float, torch.bfloat16):
        for is_synchronized in (False, True):
            train(looks, rank, kind, is_synchronized)
    torch.distributed.destroy_process_group()
    looks.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rendezvous", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        return run_rank(options)
    budget = Budget(DEADLINE)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        command = children.python(__file__, "--device", options.device, "--rendezvous", f"{folder}/store", "--rank")
        ranks = [children.begin([*command, rank], os.environ) for rank in range(RANKS)]
        for rank in ranks:
            stack.callback(children.end, rank)
        return max(rank.wait(budget.left) for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
