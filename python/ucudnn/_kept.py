"""Objects that live as long as a tensor, and memory that is used again.

An operator of PyTorch takes tensors and numbers. What else it needs, a batch or what a run forward kept, is an object
with a number here; a tensor holds the number. So compiled graphs, saved tensors and threads pass objects on as they
pass tensors, and the object goes with the last tensor that shares the storage.
"""

import array
import itertools
import weakref

import torch


class Kept:
    """Objects by number."""

    def __init__(self):
        self._objects, self._numbers = {}, itertools.count(1)

    def keep(self, thing):
        """A tensor that holds the thing's number."""
        number = next(self._numbers)
        self._objects[number] = thing
        view = memoryview(array.array("q", [number]))
        weakref.finalize(view, self._objects.pop, number).atexit = False
        return torch.frombuffer(view, dtype=torch.int64)  # whose storage holds the view

    def find(self, tensor):
        """The thing whose number a tensor holds."""
        return self._objects[tensor.item()]


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
        if piece is None or len(piece) < size:
            # Pages that nothing touches cost nothing.
            piece = torch.empty(1 << max(size - 1, 63).bit_length(), dtype=torch.uint8)
        return piece

    def give(self, piece):
        """Takes back a piece that nobody uses any more."""
        self._free.append(piece)
        del self._free[: -self.MOST]


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
