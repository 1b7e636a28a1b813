"""Batches in turn: while a program works with one, a thread makes the next."""

from __future__ import annotations

import collections
import contextlib
import copy
import itertools
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import torch

from ._library import Refused
from .graphs import Batch, Graphs, StaticBatch

#: Seconds for which an iteration that is dropped, or the end of the program, waits for the batch that is being made.
_PATIENCE = 2


class Loader:
    """Batches in turn, from :meth:`Graphs.loader`, which says what it takes. Each `iter` begins an epoch; len is the number
    of its batches.

    An epoch ends behind its last batch, when nobody holds its iterator any more, as after `break`, and by the iterator's
    `close()`. Its thread ends with it. Several epochs of one loader may run at once, unless its batches are static.

    What the making of a batch raises comes from the iterator's `next`, when it is that batch's turn. The one after next
    gives the batch behind it.

    A process that was forked meanwhile begins an epoch of its own: the iterator raises :class:`ucudnn.Refused` there, as
    its thread is the parent's.
    """

    def __init__(
        self,
        graphs: Graphs,
        batch_size: int,
        shuffle: bool,
        sampler: Iterable[int] | None,
        batch_sampler: Iterable[Sequence[int] | torch.Tensor] | None,
        drop_last: bool,
        generator: torch.Generator | None,
        collate_fn: Callable[[Batch], Any] | None,
        device: str | torch.device | None,
        static: bool | int,
        prefetch_factor: int,
    ):
        batch_size = _checked_count("batch_size", batch_size, 1)
        prefetch_factor = _checked_count("prefetch_factor", prefetch_factor, 0)
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            others = "batch_size, shuffle, sampler and drop_last"
            raise Refused(f"batch_sampler makes all batches: {others} are not accepted with it")
        if batch_sampler is not None and static is not False:
            why = "batch_size says how many graphs a batch has at most"
            raise Refused(f"static: {why}; batch_sampler is not accepted with it")
        if sampler is not None and shuffle:
            raise Refused("sampler has an order: shuffle is not accepted with it")
        for name, its in (("sampler", sampler), ("batch_sampler", batch_sampler)):
            if its is not None and not (hasattr(its, "__iter__") or hasattr(its, "__getitem__")):
                raise Refused(f"{name}: what iter() takes is accepted, not {type(its).__name__}")
        if generator is not None and not isinstance(generator, torch.Generator):
            raise Refused(f"generator: a torch.Generator is accepted, not {type(generator).__name__}")
        if collate_fn is not None and not callable(collate_fn):
            raise Refused(f"collate_fn: a function of a batch is accepted, not {type(collate_fn).__name__}")
        self._graphs, self._batch_size, self._drop_last = graphs, batch_size, drop_last
        self._shuffle, self._sampler, self._batch_sampler, self._generator = shuffle, sampler, batch_sampler, generator
        self._collate = collate_fn or (lambda batch: batch)
        self._device, self._ahead = _device_of(device), prefetch_factor
        #: The static batches that take turns, `prefetch_factor` + 1; none if batches are not static.
        self.batches: tuple[StaticBatch, ...] = ()
        if static is not False and len(graphs):
            ids = _typical(graphs, batch_size, static)
            self.batches = tuple(graphs.batch(ids, static=static) for _ in range(prefetch_factor + 1))
        # The nets that the last batches of this process ran with: the next ones are set for them ahead.
        self._asked, self._process = collections.deque(maxlen=prefetch_factor + 2), os.getpid()
        # The threads of epochs, and the streams that each works on: those of one that has ended serve the next.
        self._streams: list[tuple[threading.Thread | None, dict]] = []
        # The last epoch, and its thread.
        self._epoch: Callable[[], _Epoch | None] = lambda: None
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        if self._batch_sampler is not None:
            return len(self._batch_sampler)
        count = len(self._graphs if self._sampler is None else self._sampler)
        return count // self._batch_size if self._drop_last else -(-count // self._batch_size)

    def __iter__(self) -> Iterator[Any]:
        if self.batches:
            before = self._epoch()
            if before is not None and before.is_under_way():
                raise Refused(
                    "an epoch of this loader has not ended, and its static batches take turns in one at a time: end it, "
                    "close() its iterator, or make another loader"
                )
            if self._thread is not None:
                self._thread.join()  # it may have a static batch in hand
        if self._process != os.getpid():
            self._asked.clear()
            self._streams.clear()
            self._process = os.getpid()
        epoch = _Epoch(self)
        self._epoch, self._thread = weakref.ref(epoch), epoch.thread
        return epoch

    def _free_streams(self):
        """By device: the streams of an epoch that has ended, or of none yet."""
        for place, (thread, streams) in enumerate(self._streams):
            if thread is None or not thread.is_alive():
                del self._streams[place]
                return streams
        return {}

    def _order(self):
        """The numbers of the graphs of each batch."""
        if self._batch_sampler is not None:
            return iter(self._batch_sampler)
        size = self._batch_size
        if self._sampler is not None:
            ids = iter(self._sampler)
            batches = iter(lambda: list(itertools.islice(ids, size)), [])
        else:
            count = len(self._graphs)
            at = self._generator.device if self._generator else "cpu"  # whatever PyTorch's default device is
            order = torch.randperm(count, generator=self._generator, device=at) if self._shuffle else torch.arange(count, device=at)
            batches = order.split(size) if count else ()
        return (ids for ids in batches if len(ids) == size or not self._drop_last)


def _checked_count(name, count, least):
    if isinstance(count, bool) or not isinstance(count, Integral) or count < least:
        raise Refused(f"{name}: {least} or more is accepted, not {count!r}")
    return int(count)


def _typical(graphs, count, static):
    """The numbers of graphs to make a static batch with: it runs fastest with others that are like them. They are from all
    parts, or from all those that are small enough."""
    every = torch.arange(len(graphs), device="cpu")
    spread = lambda ids: ids[torch.arange(count, device="cpu") * len(ids) // count]
    ids = spread(every)
    sizes = graphs._first_vertex.diff()
    if isinstance(static, Integral) and static is not True and int(sizes[ids].sum()) > static:
        small = every[sizes * count <= static]
        ids = spread(small) if len(small) else ids  # which is refused
    return ids


def _device_of(device):
    """The device with its number, or None."""
    if device is None:
        return None
    try:
        device = torch.device(device)
    except (RuntimeError, TypeError):
        raise Refused(f"device: cpu and cuda are accepted, not {device!r}") from None
    if device.type not in ("cpu", "cuda"):
        raise Refused(f"device: cpu and cuda are accepted, not {device}")
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    return device


class _Made:
    """What is made for a turn: what `next` returns, its tensors on CUDA devices, and its batch; or what was raised."""

    def __init__(self, batch):
        self.batch, self.item, self.tensors, self.error = batch, None, [], None


class _Maker:
    """Makes batches, and what the program wants with them, on CUDA devices on streams of its own. A batch is there when it
    is handed over, so that any stream may run it."""

    def __init__(self, loader):
        self._graphs, self._collate, self._device = loader._graphs, loader._collate, loader._device
        self._asked = loader._asked
        # By device; and those of them that have waited for what was launched before the epoch began.
        self.streams, self._waited, self._begun = loader._free_streams(), set(), None
        if self._device is not None and self._device.type == "cuda":
            # What collate_fn reads on the device was launched before the epoch began.
            self._begun = torch.cuda.current_stream(self._device).record_event()

    def __call__(self, ids, static):
        """What the graphs of a batch become; `static` is the batch to set to them, if it is not a new one."""
        made = _Made(static)
        try:
            if isinstance(ids, BaseException):  # the sampler raised it
                raise ids
            self._make(made, ids)
        except BaseException as error:  # noqa: B036 - next() raises it
            made.error = error
        return made

    def _make(self, made, ids):
        is_new = made.batch is None
        if is_new:
            made.batch = self._graphs.batch(ids)
        prepared = made.batch._prepared
        natives = set().union(*self._asked) if is_new else prepared.of
        of_nets = {native.place.device for native in natives} - {None}
        with self._on_own_streams(of_nets):
            if is_new:
                prepared.set_ahead(natives)
            else:
                made.batch.set(ids)
        of_item = {self._device} if self._begun else set()
        with self._on_own_streams(of_item):
            made.item = self._collate(made.batch)
            if self._device is not None:
                made.item = _moved(made.item, self._device, made.tensors)
        for device in of_nets | of_item:
            _wait_for(self._stream(device))

    @contextlib.contextmanager
    def _on_own_streams(self, devices):
        with contextlib.ExitStack() as stack:
            for device in devices:
                stack.enter_context(torch.cuda.stream(self._stream(device)))
            yield

    def _stream(self, device):
        stream = self.streams.get(device)
        if stream is None:
            stream = self.streams[device] = torch.cuda.Stream(device)
        if self._begun and device == self._device and device not in self._waited:
            self._waited.add(device)
            stream.wait_event(self._begun)
        return stream


def _wait_for(stream):
    """Waits for what was launched on a stream, without keeping a core busy."""
    end = torch.cuda.Event(blocking=True)
    end.record(stream)
    end.synchronize()


def _moved(item, device, tensors):
    """The item with all its tensors on a device. Adds those on CUDA devices to a list."""
    if isinstance(item, torch.Tensor):
        with torch.no_grad():
            here = item.pin_memory() if device.type == "cuda" and item.device.type == "cpu" else item
            moved = here.to(device, non_blocking=device.type == "cuda")
            if moved is not item:
                moved.requires_grad_(item.requires_grad)
        if moved.is_cuda:
            tensors.append(moved)
        return moved
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(_moved(each, device, tensors) for each in item))
    if type(item) in (list, tuple):
        return type(item)(_moved(each, device, tensors) for each in item)
    if isinstance(item, dict):
        found = copy.copy(item)  # of its own type
        found.update((name, _moved(each, device, tensors)) for name, each in item.items())
        return found
    return item


def _work(make, requests, results, is_over):
    """The thread's."""
    while (request := requests.get()) is not None and not is_over.is_set():
        results.put(make(*request))
    results.put(None)  # for whoever waits for a request that was dropped


def _end(thread, requests, is_over):
    is_over.set()
    requests.put(None)
    # The collector of garbage may end an epoch on its own thread.
    if thread is not None and thread is not threading.current_thread():
        thread.join(_PATIENCE)


class _Epoch:
    """An iteration over a loader. The thread knows nothing of it, so that it ends when nobody holds it."""

    def __init__(self, loader):
        self._loader, self._order, self._process = loader, loader._order(), os.getpid()
        self._make = _Maker(loader)
        self._requests, self._results, is_over = queue.SimpleQueue(), queue.SimpleQueue(), threading.Event()
        # The static batches that wait, and the one that the program has.
        self._waiting, self._given = collections.deque(loader.batches), None
        for batch in loader.batches:
            batch._prepared.end_runs()  # those of before
        self._asked_for, self.thread = 0, None
        if loader._ahead:
            words = (self._make, self._requests, self._results, is_over)
            self.thread = threading.Thread(target=_work, args=words, name="ucudnn.Loader", daemon=True)
            self.thread.start()
        loader._streams.append((self.thread, self._make.streams))
        self._end = weakref.finalize(self, _end, self.thread, self._requests, is_over)
        for _ in range(loader._ahead):
            self._ask()

    def is_under_way(self):
        return self._end.alive and self._process == os.getpid()

    def close(self):
        """Ends the epoch: `next` raises StopIteration."""
        self._end()

    def __iter__(self):
        return self

    def __next__(self):
        if self._process != os.getpid():
            raise Refused("the process was forked since this epoch began, and its thread is the parent's: begin another one")
        self._take_back()
        # An interrupted `next` has asked already.
        if self._end.alive and self._asked_for <= self._loader._ahead:
            self._ask()
        if not self._asked_for or not self._end.alive:
            self.close()
            raise StopIteration
        if self.thread is None:
            self._results.put(self._make(*self._requests.get()))
        made = self._results.get()
        if made is None:  # closed meanwhile
            self._results.put(None)
            raise StopIteration
        self._asked_for -= 1
        return self._handed_over(made)

    def _ask(self):
        """Asks for a batch, if there is one more."""
        try:
            ids = next(self._order, None)
        except Exception as error:  # noqa: BLE001 - it comes when it is the batch's turn
            ids = error
        if ids is None:
            return
        static = self._waiting.popleft() if self._waiting else None
        if static is not None:
            static._prepared.expire()
        self._requests.put((ids, static))
        self._asked_for += 1

    def _take_back(self):
        """The static batch that the program had is set to others next."""
        if self._given is not None:
            self._given._prepared.end_runs()
            self._waiting.append(self._given)
            self._given = None

    def _handed_over(self, made):
        if made.error is not None:
            if self._loader.batches:
                self._waiting.append(made.batch)
            error, made.error = made.error, None  # which holds this frame
            try:
                if isinstance(error, StopIteration):  # it would end the program's loop
                    raise RuntimeError("the making of a batch raised StopIteration") from error
                raise error
            finally:
                del error
        if self._loader.batches:
            self._given = made.batch
        else:
            self._loader._asked.append(made.batch._prepared.asked)
        for tensor in made.tensors:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))  # it was made on another
        return made.item
