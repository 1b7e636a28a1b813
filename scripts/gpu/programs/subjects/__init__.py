"""The calls of a case of scripts/gpu/sampler, by PyTorch: a module for each group of families, with a class Subject.

    subject = Subject(case, device)
    exact = subject.exact(which)       # results in double precision, by name, on data set 0 or 1
    subject.renew(which)               # copies data set 0 or 1 to the memory that the calls read
    found = subject.run()              # results by name, in new memory
    subject.traits(name)               # for sampler.verdict: precision, depth, chain, goes_by_plain
    subject.magnitude(name, which)     # the root mean square that its error is taken of, if not that of `exact`

A subject that is compared in its own process has rival(which) too, whose results are eager PyTorch's.
"""

import torch


class Normal:
    """Normal numbers from a case's number: the same ones in each process and on each device."""

    def __init__(self, case, device):
        self.generator, self.device = torch.Generator().manual_seed(case["number"]), device

    def __call__(self, *shape, scale=1.0, dtype=torch.float32):
        return (torch.randn(shape, generator=self.generator) * scale).to(self.device, dtype)


def replace(live, data):
    """Copies tensors to the memory of others, which may be leaves."""
    with torch.no_grad():
        for to, source in zip(live, data, strict=True):
            to.copy_(source)


def in_double(*tensors):
    """Leaves of double precision with the same numbers."""
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


class Sized:
    """A subject whose errors are taken of the exact results themselves."""

    def magnitude(self, name, which):
        return None
