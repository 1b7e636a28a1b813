"""Objects that live as long as a tensor, and memory that is used again.

An operator of PyTorch takes tensors and numbers. What else it needs, a batch or what a run forward kept, is an object
with a number here; a tensor holds the number. So compiled graphs, saved tensors and threads pass objects on as they
pass tensors. The object lives as long as a tensor that shares the storage, or anything else that holds the object. A
copy of the tensor has the number alone.
"""

import array
import ctypes
import itertools
import weakref

import torch

from ._library import Refused


class _Number(array.array):
    """The memory of a tensor that holds a number. It has its thing as an attribute."""


class Kept:
    """Objects by number."""

    def __init__(self, what):
        self._what = what
        self._objects, self._numbers = weakref.WeakValueDictionary(), itertools.count(1)

    def keep(self, thing, more=0):
        """A tensor that holds the thing's number, and one number more."""
        if not hasattr(thing, "number"):
            thing.number = next(self._numbers)
            self._objects[thing.number] = thing
        memory = _Number("q", [thing.number, more])
        memory.thing = thing
        return torch.frombuffer(memory, dtype=torch.int64)  # whose storage holds the memory

    def find(self, tensor):
        """The thing whose number a tensor holds, and the number more."""
        number, more = tensor.tolist()
        thing = self._objects.get(number)
        if thing is None:
            raise Refused(
                f"{self._what} is gone: a saved-tensor hook copied the tensor of torch.int64 that kept it. In a program "
                "of torch.compile's, hooks return such tensors as they are; in others, they may copy all"
            )
        return thing, more


class Memory:
    """Pieces of memory. Fresh ones would cost a page fault for each 4 KiB."""

    MOST = 4

    def __init__(self):
        self._free = []

    # Any thread may give at any time, this one too, in the middle of a line: the collector of garbage runs finalizers.
    # So there is no lock, and each line leaves the list whole.

    def take(self, size):
        """A tensor of at least so many bytes, which mean nothing."""
        try:
            piece = self._free.pop()
        except IndexError:
            piece = None
        if piece is None or piece.numel() < size:
            # Pages that nothing touches cost nothing.
            piece = torch.empty(1 << max(size - 1, 63).bit_length(), dtype=torch.uint8, device="cpu")
        return piece

    def give(self, piece):
        """Takes back a piece that nobody uses any more."""
        self._free.append(piece)
        del self._free[: -self.MOST]

    def lend(self, size):
        """A tensor of so many bytes, which mean nothing. They come back once nobody holds the tensor's storage."""
        piece = self.take(size)
        view = (ctypes.c_uint8 * piece.numel()).from_address(piece.data_ptr())
        view.loan = _Loan(self, piece)
        return torch.frombuffer(view, dtype=torch.uint8, count=max(size, 1))  # whose storage holds the view


class _Loan:
    """Gives a piece of memory back when it ends."""

    def __init__(self, memory, piece):
        self._memory, self._piece = memory, piece

    def __del__(self):
        self._memory.give(self._piece)


class DeviceMemory:
    """Memory of a CUDA device. torch gives each stream's memory out again, in the stream's order."""

    def __init__(self, device):
        self._device = device

    def take(self, size):
        """A tensor of at least so many bytes, for the current stream."""
        # Few sizes, so that a batch finds memory that another one had: fresh memory takes a millisecond.
        step = 1 << max(size.bit_length() - 3, 16)
        return torch.empty(-(-max(size, 1) // step) * step, dtype=torch.uint8, device=self._device)

    def give(self, piece):
        """Does nothing: the memory is free once nobody holds the tensor."""

    def lend(self, size):
        """A tensor of so many bytes, for the current stream."""
        return self.take(size)[: max(size, 1)]
