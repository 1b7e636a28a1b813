"""Branches of a network that run side by side: each on a stream of its own, as programs with several streams do."""

import contextlib

import torch

from networks import Concatenated

# Inception-v3 has four branches side by side, and in some of them two more.
STREAMS = 6


class Concurrent(Concatenated):
    """Concatenated, with a stream for each branch. The stream that calls goes on once all branches have ended. Autograd runs
    the gradients of a branch on its stream, too."""

    def __init__(self, branches, streams):
        super().__init__(*branches)
        self.streams = streams

    def forward(self, x):
        if not x.is_cuda:
            return super().forward(x)
        caller, results = torch.cuda.current_stream(), []
        for branch, stream in zip(self.branches, self.streams, strict=True):
            stream.wait_stream(caller)
            # Memory is used again only when the streams that read it have come so far.
            x.record_stream(stream)
            with torch.cuda.stream(stream):
                results.append(branch(x))
        for result, stream in zip(results, self.streams, strict=True):
            caller.wait_stream(stream)
            result.record_stream(caller)
        return torch.cat(results, dim=1)


def streams(device):
    return [torch.cuda.Stream() if device == "cuda" else contextlib.nullcontext() for _ in range(STREAMS)]


def spread(module, streams):
    """Gives each branch within a module a stream. Branches within a branch get others than that has beside it. Names stay.
    Returns how many branches there are."""
    found = 0
    for name, child in module.named_children():
        if not isinstance(child, Concatenated):
            found += spread(child, streams)
            continue
        count = len(child.branches)
        own, rest = streams[:count], streams[count:]
        found += count + sum(spread(branch, rest) for branch in child.branches)
        setattr(module, name, Concurrent(child.branches, own))
    return found
