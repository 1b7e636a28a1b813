"""Vertex nets as modules of PyTorch."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import itertools
import math
import operator
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from . import _library
from ._kept import DeviceMemory, Kept, Memory
from ._library import NotSupported, Refused
from .graphs import Batch, prepared_of
from .vertex import Symbols, Vertex, check_held

if TYPE_CHECKING:
    from .optimizers import Optimizer

_TYPES = {getattr(torch, name): number for name, number in _library.DATA_TYPES.items()}
_TYPE_NAMES = ", ".join(_library.DATA_TYPES)
_LABEL_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_LARGEST_FLOAT = torch.finfo(torch.float32).max

VertexFunction = Callable[[Vertex], None]


class VertexNet(torch.nn.Module):
    """A net that computes a function at each vertex of a graph, from the leaves up (Xu et al., "Cavs", USENIX ATC 2018).

    states: the width of each state that vertices hand on to their parents, by name.

    functions: a vertex function for each kind of vertex, by its number of slots for children, or "any". Each is called
    once, with a :class:`ucudnn.Vertex`. A sequence of pairs (slots, function) may have several for one number;
    `Graphs(kinds=…)` then tells which, by place.

    parameters: the module whose parameters the functions name, mostly the one that holds the net. Its parameters stay
    its own: they are read at each call.

    loss: the output with the scores of classes, for :meth:`step`.

    A call takes a batch and its inputs, by name or in the order in which the functions pull them, and returns a named tuple
    of the outputs::

        y = net(batch, x=x).h       # x [rows of the batch, width], y [vertices of the batch, width]

    With a :class:`ucudnn.StaticBatch` both have as many rows as the largest batch has vertices.

    Tensors are of torch.float32, float64, float16 or bfloat16, one type in a call, and all on the CPU or on one CUDA
    device, where they are not of float64. float16 and bfloat16 are summed in float. A net without tensors is of float32, on
    the CPU. Under autocast, tensors of float32 are cast to its type. Gradients flow to parameters and inputs; second
    derivatives, derivatives in forward mode and torch.func's transforms are refused.

    On a device a call launches on the current stream and waits for nothing; torch.backends.cuda.matmul.allow_tf32 counts as
    elsewhere; and an index that is out of range reads zeros. On the CPU it is refused. A stream that is being captured is
    refused but for static batches.

    Raises :class:`ucudnn.Refused` for what is not accepted: the text names the function and what is.
    """

    def __init__(
        self,
        states: Mapping[str, int],
        functions: Mapping[int | str, VertexFunction] | Sequence[tuple[int | str, VertexFunction]],
        parameters: torch.nn.Module | None = None,
        loss: str | None = None,
    ):
        super().__init__()
        if not isinstance(parameters, (torch.nn.Module, type(None))):
            raise Refused(f"parameters: a module is accepted, not {type(parameters).__name__}")
        # In a tuple, so that the module that holds this one is not registered as its part.
        self._owner = (parameters,)
        self._declaration = _Declaration(states, functions, _Owner(parameters), loss)
        self._begin()

    def _begin(self):
        self._core = _Core(self._declaration)
        self._outputs = collections.namedtuple("Outputs", self._declaration.pushes)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("_core", "_outputs")}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._begin()

    def extra_repr(self) -> str:
        declaration = self._declaration
        return f"states={declaration.states}, inputs={declaration.pulls}, outputs={declaration.pushes}"

    def text(self) -> str:
        """The net's canonical text: its sizes and the operations of its functions."""
        return _library.text("GetVertexNetText", self._core.native(torch.float32, False, (1, 1, 0, 1)).handle)

    def forward(self, batch: Batch, *in_order: torch.Tensor, **inputs: torch.Tensor) -> Any:
        """What a call of the net computes.

        batch: the graphs.

        in_order: inputs [rows of the batch, width], or [rows of the batch] of torch.int64 for indices, in the order in which
        the functions pull them.

        inputs: the other inputs, by name.

        Returns a named tuple of the outputs, [vertices of the batch, width] each; the text of the class says the rest.
        """
        parameters, pulls, *_ = self._tensors(batch, self._by_name(in_order, inputs))
        tensors = (*parameters, *pulls)
        is_training = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        _check_transforms(tensors, is_training)
        if not is_training:
            found = _forward_operator(batch._number, batch._output_rows, parameters, pulls, self._core.number,
                                      self._core.widths, False)  # fmt: skip
            return self._outputs(*found)
        core = self._core
        found = _Run.apply(core.number, core.widths, len(parameters), batch._number, batch._output_rows, *tensors)
        return self._outputs(*found)

    @torch.no_grad()
    def step(
        self, batch: Batch, *, labels: torch.Tensor, lr: float, weight_decay: float = 0.0, optimizer: Optimizer | None = None,
        **inputs: torch.Tensor,
    ) -> float | torch.Tensor:  # fmt: skip
        """A step of training in one call: forward, the loss, backward, and an update, which writes the parameters.

        The loss is the mean, over the vertices with a label, of the cross-entropy of softmax(scores) and label. It is
        returned. Each parameter p becomes p - lr (gradient + weight_decay p), or changes as the optimizer says.

        labels: [vertices of the batch] the class of each vertex, -1 for one that is not in the loss; of a type of integers,
        int8 to int64 or uint8.

        lr: the learning rate. It is rounded to float32, in a net of doubles too.

        weight_decay: the part of a parameter that is added to its gradient, rounded likewise.

        optimizer: :class:`ucudnn.Momentum`, :class:`ucudnn.Adam` or :class:`ucudnn.AdamW`, made for this net; None for
        gradient descent.

        inputs: those of a call, by name.

        On a GPU, the loss is a tensor [] of float32 there, since nothing waits for it. Labels may be there too: nobody
        looks whether each is a class, and those that are none are not in the loss. Those of a static batch are as many
        as its outputs have rows.

        Raises :class:`ucudnn.Refused`, and writes nothing, for a label that is no class, a number that float32 does not
        hold, a parameter that is not contiguous, requires no gradient or shares memory with one of another name, and what
        a call refuses.
        """
        if self._declaration.loss is None:
            raise Refused("step: the net was made without loss=, the name of the output with the scores")
        parameters, pulls, dtype, device = self._tensors(batch, inputs, may_cast=False)
        names = {}
        for name, parameter in zip(self._declaration.parameters, parameters, strict=True):
            if names.setdefault(id(parameter), name) != name:
                both = f"{names[id(parameter)]!r} and {name!r}"
                raise Refused(f"step: parameters {both} are one tensor, which has one name in the functions of a net that steps")
            if not parameter.is_contiguous():
                raise Refused(f"step: parameter {name!r} is not contiguous")
            if not parameter.requires_grad:
                raise Refused(f"step: {name!r} requires no gradient, and a step writes all that the functions take")
        if not isinstance(labels, torch.Tensor):
            raise Refused(f"labels: a tensor is accepted, not {type(labels).__name__}")
        rows = batch._output_rows if device.type == "cuda" else batch.vertices
        _check_dense("labels", labels)
        if labels.dtype not in _LABEL_TYPES or labels.shape != rows.shape:
            raise Refused(f"labels: integers [{len(rows)}] are accepted, not {labels.dtype} {list(labels.shape)}")
        if "cpu" in (device.type, labels.device.type):
            self._check_labels(labels)
        elif labels.dtype == torch.int64:  # those that are no classes stay such in 32 bits
            labels = labels.clamp(-1, self._declaration.pushes[self._declaration.loss])
        given = labels.to(device, torch.int32).contiguous()
        loss = torch.empty((), dtype=torch.float32, device=device)
        native, prepared = self._core.prepared(prepared_of(batch._number), dtype, True, device)
        more = {"labels": given.data_ptr(), "loss": loss.data_ptr(), "learningRate": _rate("lr", lr),
                "weightDecay": _rate("weight_decay", weight_decay)}  # fmt: skip
        by = None
        if optimizer is not None:
            if not hasattr(type(optimizer), "_of_step"):
                raise Refused(f"optimizer: one of ucudnn is accepted, as Adam, not {type(optimizer).__name__}")
            by = optimizer._of_step(dict(zip(self._declaration.parameters, parameters, strict=True)), dtype, device)
        reserve = native.memory.take(prepared.reserve)
        native.run("Step", prepared, reserve, by, parameters=parameters, pulls=_contiguous(pulls), **more)
        native.memory.give(reserve)
        torch.autograd.graph.increment_version(parameters)
        return loss.item() if device.type == "cpu" else loss

    def _named_parameters(self):
        """The parameters that the functions take, by name, as they are now."""
        return {name: _named(self._owner[0], name) for name in self._declaration.parameters}

    def _check_labels(self, labels):
        """Refuses labels that are no classes."""
        most = self._declaration.pushes[self._declaration.loss] - 1
        least, largest = map(int, torch.aminmax(labels))
        if least < -1 or largest > most:
            labels = labels.long()  # torch would compare bytes with a byte: -1 as 255
            wrong = torch.nonzero((labels < -1) | (labels > most))
            raise Refused(f"vertex {int(wrong[0])} has the label {int(labels[wrong[0]])}; -1 to {most} are accepted")

    def _by_name(self, in_order, inputs):
        """All inputs by name, in the declaration's order."""
        if not in_order:
            return inputs
        names = list(self._declaration.pulls)
        if len(in_order) > len(names) or inputs.keys() & set(names[: len(in_order)]):
            given = f"{len(in_order)} inputs in order and {', '.join(inputs) or 'none'} by name"
            raise Refused(f"{given} were given; the net's are {', '.join(names) or 'none'}")
        return dict(zip(names[: len(in_order)], in_order, strict=True)) | inputs

    def _tensors(self, batch, inputs, may_cast=True):
        """The parameters and inputs of a call, checked, and their type and device."""
        declaration = self._declaration
        if not isinstance(batch, Batch):
            raise Refused(f"a net is called with a batch, from Graphs.batch, not with {type(batch).__name__}")
        if inputs.keys() != declaration.pulls.keys():
            names = ", ".join(declaration.pulls) or "none"
            raise Refused(f"inputs {', '.join(inputs) or 'none'} were given; the net's are {names}")
        named = self._named_parameters()
        given = [*named.values(), *inputs.values()]
        device = next((tensor.device for tensor in given if isinstance(tensor, torch.Tensor)), torch.device("cpu"))
        kind = "cuda" if device.type == "cuda" else "cpu"  # `_check` refuses others
        cast = torch.get_autocast_dtype(kind) if may_cast and torch.is_autocast_enabled(kind) else None
        dtype, parameters, pulls = None, [], []
        for name, (height, columns) in declaration.parameters.items():
            shape = (height, columns) if columns else (height,)
            dtype = _check(name, named[name], shape, dtype, cast, device, parameters)
        rows = batch._input_rows.shape[0]
        for name, width in declaration.pulls.items():
            if width:
                dtype = _check(name, inputs[name], (rows, width), dtype, cast, device, pulls)
            else:
                _check(name, inputs[name], (rows,), torch.int64, None, device, pulls)
        return parameters, pulls, dtype or torch.float32, device


def _check_dense(name, tensor):
    """Refuses a tensor whose numbers a run cannot read where they are."""
    if tensor.layout != torch.strided or tensor.is_nested:
        kind = "a nested tensor" if tensor.is_nested else f"of {tensor.layout}"
        raise Refused(f"{name} is {kind}; a dense tensor is accepted, of {torch.strided}")
    if not (tensor.is_cpu or tensor.is_cuda):
        raise NotSupported(f"{name} is on {tensor.device}; nets run on the CPU and on CUDA devices")


def _check(name, tensor, shape, dtype, cast, device, to):
    """Adds a tensor to a list, cast if it has to be. Returns its type, which is `dtype` if that is known."""
    if not isinstance(tensor, torch.Tensor):
        raise Refused(f"{name}: a tensor is accepted, not {type(tensor).__name__}")
    _check_dense(name, tensor)
    if tensor.device != device:
        raise Refused(f"{name} is on {tensor.device}; {device} is accepted here, where the other tensors are")
    if tensor.shape != shape:
        raise Refused(f"{name} is {list(tensor.shape)}; {list(shape)} is accepted")
    if cast is not None and tensor.dtype == torch.float32:
        tensor = tensor.to(cast)
    if dtype is None and tensor.dtype not in _TYPES:
        raise Refused(f"{name} is of {tensor.dtype}; {_TYPE_NAMES} are accepted")
    if dtype is not None and tensor.dtype != dtype:
        raise Refused(f"{name} is of {tensor.dtype}; {dtype} is accepted here")
    to.append(tensor)
    return tensor.dtype


# PyTorch has no public names for these. Where one is gone, PyTorch's own error says what a net does not go through.
_has_transforms = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
_is_wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", lambda tensor: False)


def _check_transforms(tensors, is_training=False):
    """Refuses what autograd's graph does not have: transforms of torch.func, and derivatives in forward mode, which a run
    would lose."""
    is_traced = torch.compiler.is_compiling()  # a compiler does not say which tensors they are
    if _has_transforms() and (is_traced or is_training or any(map(_is_wrapped, tensors))):
        raise NotSupported("torch.func's transforms, such as vmap and grad, do not go through a net; backward does")
    has_tangent = lambda tensor: forward_ad.unpack_dual(tensor).tangent is not None
    if getattr(forward_ad, "_current_level", -1) >= 0 and (is_traced or any(map(has_tangent, tensors))):
        raise NotSupported("a net has no derivatives in forward mode; backward gives those of its outputs")


def _rate(what, number):
    """A number that the library takes as a float."""
    try:
        if isinstance(number, (str, bytes)):
            raise TypeError  # float would read it
        rate = float(number)
    except OverflowError:  # an integer, whose digits may be too many to show
        rate = math.inf
    except (TypeError, ValueError):
        raise Refused(f"step: {what}: a number is accepted, not {type(number).__name__}") from None
    if not abs(rate) <= _LARGEST_FLOAT:
        raise Refused(f"step: {what}: a finite number that float32 holds is accepted, not {rate}")
    return rate


def _named(owner, name):
    """The tensor of this name now. Attributes find parametrized and replaced ones too."""
    for part in name.split("."):
        owner = getattr(owner, part)
    return owner


class _Owner:
    """The module whose parameters the functions name."""

    def __init__(self, module):
        self._module = module

    def named(self, name):
        """The parameter or the part of this name."""
        try:
            return _named(self._module, name)
        except AttributeError:
            names = ", ".join(name for name, _ in self._module.named_parameters()) if self._module is not None else ""
            raise Refused(f"parameter {name!r}: the module has none; it has {names or 'none'}") from None

    def size(self, name):
        """Rows and columns of a parameter, 0 columns for a vector; None for one that a ready module does without."""
        tensor = self.named(name)
        if tensor is None and name.endswith((".weight", ".bias")):
            return None
        if not isinstance(tensor, torch.Tensor) or tensor.dim() not in (1, 2):
            raise Refused(f"parameter {name!r}: a tensor of 1 or 2 dimensions is accepted")
        for size in tensor.shape:
            check_held(f"parameter {name!r}: a size is at most {2**31 - 1}", size)
        return (tensor.shape[0], tensor.shape[1] if tensor.dim() == 2 else 0)

    def name_of(self, tensor):
        """The name of a parameter or a buffer, or None."""
        if self._module is None:
            return None
        kinds = (self._module.named_parameters, self._module.named_buffers)
        both = itertools.chain.from_iterable(kind(remove_duplicate=False) for kind in kinds)
        return next((name for name, its in both if its is tensor), None)


class _Declaration:
    """What a net is made of: plain data, which pickles."""

    def __init__(self, states, functions, owner, loss):
        symbols = Symbols(states, owner)
        try:
            pairs = list(functions.items() if isinstance(functions, Mapping) else functions)
        except TypeError:
            raise Refused(f"functions: a mapping or a sequence of pairs is accepted, not {functions!r}") from None
        self.functions = []
        for place, pair in enumerate(pairs):
            if not isinstance(pair, Sequence) or len(pair) != 2 or not callable(pair[1]):
                raise Refused(f"functions: pairs of a number of slots and a function are accepted, not {pair!r}")
            slots, function = pair
            is_any = isinstance(slots, str) and slots == "any"
            if not is_any and not (isinstance(slots, Integral) and slots >= 0):
                raise Refused(f'functions: a number of slots or "any" is accepted, not {slots!r}')
            if not is_any:
                slots = int(slots)
                check_held("functions: a vertex has at most 65535 children", slots)
            vertex = Vertex(symbols, -1 if is_any else slots)
            try:
                function(vertex)
            except Refused as error:
                raise type(error)(f"function {place}, for {slots} children: {error}") from None
            self.functions.append((vertex.children_count, tuple(vertex.operations)))
        self.states, self.pulls, self.pushes = symbols.states, symbols.pulls, symbols.pushes
        self.parameters = symbols.parameters
        if loss is not None and not (isinstance(loss, str) and loss in self.pushes):
            raise Refused(f"loss: no output {loss!r}; the net's: {', '.join(self.pushes) or 'none'}")
        self.loss = loss

    def made(self, dtype, is_training, place, maxima):
        """Makes the library's net, and returns its handle."""
        integers = lambda numbers: _library.array(ctypes.c_int, list(numbers))
        functions = []
        for children, operations in self.functions:
            array = _library.array(_library.Operation, [_library.Operation(*each) for each in operations])
            functions.append(_library.Function(children, len(array), array))
        sizes = [(ctypes.c_int * 2)(*size) for size in self.parameters.values()]
        description = _library.NetDescription(
            dataType=_TYPES[dtype], isTraining=is_training, **place.fields,
            stateCount=len(self.states), parameterCount=len(sizes), pullCount=len(self.pulls),
            pushCount=len(self.pushes), functionCount=len(functions), stateWidths=integers(self.states.values()),
            pullWidths=integers(self.pulls.values()), pushWidths=integers(self.pushes.values()),
            parameterSizes=_library.array(ctypes.c_int * 2, sizes),
            functions=_library.array(_library.Function, functions),
            loss=1 if self.loss is not None and is_training else 0,
            lossPush=list(self.pushes).index(self.loss) if self.loss is not None else 0,
            **dict(zip(("maxGraphs", "maxVertices", "maxChildren", "maxLevels"), maxima, strict=True)),
        )  # fmt: skip
        return _library.made("CreateVertexNet", ctypes.byref(description))


class _Place:
    """Where a net runs: on the CPU, with as many threads as torch's, or on a CUDA device."""

    def __init__(self, device):
        self.device = device if device.type == "cuda" else None
        tf32 = self.device is not None and torch.backends.cuda.matmul.allow_tf32
        self.fields = {"allowTf32": tf32} if self.device else {"isOnHost": 1, "hostThreads": torch.get_num_threads()}
        self.key = (self.device, *self.fields.values())

    def entered(self):
        """A context in which the device is the current one."""
        return torch.cuda.device(self.device.index) if self.device else contextlib.nullcontext()

    def stream(self):
        """The stream that a call launches on; None on the CPU."""
        return torch.cuda.current_stream(self.device.index) if self.device else None


class _Native:
    """A net of the library's: of one type of tensors, on one device, for batches up to some sizes."""

    def __init__(self, declaration, dtype, is_training, place, maxima):
        self.maxima, self.place, self.is_static = maxima, place, "isStatic" in place.fields
        with place.entered():
            self.handle = declaration.made(dtype, is_training, place, maxima)
        weakref.finalize(self, _library.call, "DestroyVertexNet", self.handle).atexit = False
        self.memory = DeviceMemory(place.device) if place.device else Memory()
        self._batches, self._is_set_ahead, self._process = [], False, os.getpid()

    def fits(self, sizes):
        return all(map(operator.le, sizes, self.maxima))

    def take_batch(self, prepared, is_ahead=False):
        """A batch of the library's, for the graphs of a batch. It may be on another stream than the one of runs, ahead of
        those."""
        self._is_set_ahead |= is_ahead
        try:
            batch = self._batches.pop()
        except IndexError:
            batch = _NativeBatch(self)
        self.set_batch(batch, prepared.graphs, prepared.ids)
        return batch

    def set_batch(self, batch, graphs, ids):
        """Sets a batch of the library's to these graphs."""
        with self.place.entered():
            stream = self.place.stream()
            if stream:
                batch.wait_for_runs(stream)
            _library.call("SetGraphBatch", batch.handle, graphs._handle, ids.data_ptr(), ids.numel(), _number_of(stream))
        if self.is_static and batch.workspace:
            return  # always the same
        workspace, reserve = ctypes.c_size_t(), ctypes.c_size_t()
        sizes = (ctypes.byref(workspace), ctypes.byref(reserve))
        _library.call("GetVertexNetMemorySize", self.handle, batch.handle, *sizes)
        batch.workspace, batch.reserve = workspace.value, reserve.value

    def give_batch(self, batch):
        """Takes back a batch whose runs are launched."""
        # A process that was forked has no such streams.
        if self._is_set_ahead and not sys.is_finalizing() and os.getpid() == self._process:
            batch.end_runs()
        self._batches.append(batch)

    def end_runs(self, batch):
        """All runs of a batch are launched: replays of captured ones too, on the current stream."""
        if stream := self.place.stream():
            batch.runs_on(stream)
            batch.end_runs()

    def run(self, which, batch, reserve, optimizer=None, **given):
        """Runs a batch. Lists of tensors become lists of pointers; the tensors are contiguous. A step may have an optimizer's
        struct, with what it points to."""
        arguments = {}
        for name, value in given.items():
            if isinstance(value, (list, tuple)):
                pointers = [None if tensor is None else tensor.data_ptr() for tensor in value]
                value = _library.array(ctypes.c_void_p, pointers)
            arguments[name] = value
        workspace = self.memory.take(batch.workspace)
        arguments = _library.Arguments(
            workspace=workspace.data_ptr(), workspaceSizeInBytes=workspace.numel(),
            reserve=reserve.data_ptr() if reserve is not None else None,
            reserveSizeInBytes=reserve.numel() if reserve is not None else 0, **arguments,
        )  # fmt: skip
        try:
            with self.place.entered():
                stream = self.place.stream()
                if stream:
                    batch.runs_on(stream)
                given = [ctypes.byref(arguments), *([ctypes.byref(optimizer[0])] if optimizer else [])]
                name = f"RunVertexNet{'Optimizer' if optimizer else ''}{which}"
                _library.call(name, self.handle, batch.handle, *given, _number_of(stream))
        finally:
            self.memory.give(workspace)


def _number_of(stream):
    """A stream as the library takes it."""
    return stream.cuda_stream if stream else None


class _NativeBatch:
    """A batch of the library's, and the memory that its runs take in bytes. On a device, the streams of its runs too: it is
    set to other graphs behind them, wherever it is set."""

    def __init__(self, native):
        with native.place.entered():
            self.handle = _library.made("CreateGraphBatch", native.handle)
        weakref.finalize(self, _library.call, "DestroyGraphBatch", self.handle).atexit = False
        self.workspace = self.reserve = 0
        # Of each stream by its number: the stream, or the end of the runs on it.
        self._runs = {}

    def runs_on(self, stream):
        """A run is launched on a stream."""
        self._runs[stream.cuda_stream] = stream

    def end_runs(self):
        """All runs are launched. Notes where they end, before more is launched on their streams."""
        for number, its in list(self._runs.items()):
            if isinstance(its, torch.cuda.Stream) and not _is_capturing(its):  # an event of a capture ends nothing
                self._runs[number] = its.record_event()

    def wait_for_runs(self, stream):
        """Has the current stream wait for the runs on others."""
        self._runs.pop(stream.cuda_stream, None)
        if self._runs and not torch.cuda.is_current_stream_capturing():  # the library refuses to set the batch there
            self.end_runs()
            for end in self._runs.values():
                if not isinstance(end, torch.cuda.Stream):
                    stream.wait_event(end)
            self._runs = {}


def _is_capturing(stream):
    with torch.cuda.stream(stream):
        return torch.cuda.is_current_stream_capturing()


class _Core:
    """What runs a net: the library's nets, one for each type of tensors and each use."""

    ALL: weakref.WeakValueDictionary[int, _Core] = weakref.WeakValueDictionary()
    _numbers = itertools.count(1)

    def __init__(self, declaration):
        self._declaration = declaration
        self.widths = list(declaration.pushes.values())
        self._natives, self._lock = {}, threading.Lock()
        self.number = next(self._numbers)
        self.ALL[self.number] = self
        self.native(torch.float32, False, (1, 1, 0, 1))  # the library checks the declaration

    def native(self, dtype, is_training, sizes, device=torch.device("cpu"), is_static=False):
        """The library's net that runs a batch of these sizes; on a device, a static batch has a net of its own."""
        place = _Place(device)
        if is_static and place.device:
            return self._static(dtype, is_training, sizes, place)
        key = dtype, is_training, place.key
        with self._lock:
            native = self._natives.get(key)
            if native is None or not native.fits(sizes):
                sizes = sizes if native is None else map(max, sizes, native.maxima)
                maxima = tuple(1 << (size - 1).bit_length() if size > 1 else size for size in sizes)
                native = self._natives[key] = _Native(self._declaration, dtype, is_training, place, maxima)
        return native

    def _static(self, dtype, is_training, sizes, place):
        place.fields["isStatic"] = 1
        key = dtype, is_training, place.key, sizes
        with self._lock:
            if key not in self._natives:
                self._natives[key] = _Native(self._declaration, dtype, is_training, place, sizes)
        return self._natives[key]

    def prepared(self, batch, dtype, is_training, device):
        """The library's net, and its batch."""
        native = self.native(dtype, is_training, batch.sizes, device, batch.is_static)
        with self._lock:
            if native not in batch.of:
                batch.of[native] = native.take_batch(batch)
        batch.asked.add(native)
        return native, batch.of[native]


class _Origin:
    """What ran forward: a net of the library's, and its batch."""

    def __init__(self, native, prepared, batch):
        self.native, self.prepared, self.batch = native, prepared, batch
        # Replays run the graphs that the batch has then. The library captures no others.
        self.is_captured = native.is_static and torch.cuda.is_current_stream_capturing()


class _Reserve:
    """What a run forward kept for the run backward."""

    def __init__(self, origin, memory):
        self.origin, self.memory = origin, memory


_ORIGINS = Kept("the net and the batch of a run forward")
_RESERVES = Kept("what a run forward kept")


def _contiguous(tensors):
    return [tensor.contiguous() for tensor in tensors]


def _aligned(memory):
    """Memory as the library takes it; a saved-tensor hook may have brought it back anywhere."""
    memory = memory.contiguous()
    return memory.clone() if memory.data_ptr() % (8 if memory.device.type == "cpu" else 256) else memory


def _type_and_device(parameters, pulls):
    tensors = (*parameters, *pulls)
    dtype = next((tensor.dtype for tensor in tensors if tensor.dtype in _TYPES), torch.float32)
    return dtype, tensors[0].device if tensors else torch.device("cpu")


def _forward(batch, vertices, parameters, pulls, net, widths, is_training):
    core, prepared = _Core.ALL[net], prepared_of(batch)
    dtype, device = _type_and_device(parameters, pulls)
    native, its = core.prepared(prepared, dtype, is_training, device)
    memory = native.memory.lend(its.reserve) if is_training else None
    make = torch.zeros if prepared.is_static and device.type == "cpu" else torch.empty  # devices fill up with zeros
    pushes = [make((vertices.numel(), width), dtype=dtype, device=device) for width in widths]
    parameters, pulls = _contiguous(parameters), _contiguous(pulls)
    native.run("Forward", its, memory, parameters=parameters, pulls=pulls, pushes=pushes)
    return [*pushes, _RESERVES.keep(_Reserve(_Origin(native, its, prepared), memory))] if is_training else pushes


def _backward(batch, reserve, parameters, pulls, gradients, wanted):
    if len(reserve) == 1:
        kept, _ = _RESERVES.find(reserve[0])
        origin, memory = kept.origin, kept.memory
    else:
        memory, number = reserve
        origin, _ = _ORIGINS.find(number)
    if not origin.is_captured:
        prepared_of(batch)
    tensors = [*parameters, *pulls]
    make = torch.zeros_like if origin.batch.is_static and tensors[0].device.type == "cpu" else torch.empty_like
    results = [make(tensor, memory_format=torch.contiguous_format) if want else None
               for tensor, want in zip(tensors, wanted, strict=True)]  # fmt: skip
    parameters, pulls = _contiguous(parameters), _contiguous(pulls)
    gradients = [None if gradient is None else gradient.contiguous() for gradient in gradients]
    origin.native.run(
        "Backward", origin.prepared, _aligned(memory), parameters=parameters, pulls=pulls, pushGradients=gradients,
        parameterGradients=results[: len(parameters)], pullGradients=results[len(parameters) :],
    )  # fmt: skip
    return [result for result in results if result is not None]


def _forward_fake(batch, vertices, parameters, pulls, net, widths, is_training):
    dtype, device = _type_and_device(parameters, pulls)
    pushes = [vertices.new_empty((vertices.shape[0], width), dtype=dtype, device=device) for width in widths]
    return [*pushes, batch.new_empty(2)] if is_training else pushes


def _backward_fake(batch, reserve, parameters, pulls, gradients, wanted):
    tensors = zip((*parameters, *pulls), wanted, strict=True)
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor, want in tensors if want]


_OPERATORS = torch.library.Library("ucudnn", "DEF")
_OPERATORS.define(
    "vertex_forward(Tensor batch, Tensor vertices, Tensor[] parameters, Tensor[] pulls, int net, int[] widths, "
    "bool is_training) -> Tensor[]"
)
_OPERATORS.define(
    "vertex_backward(Tensor batch, Tensor[] reserve, Tensor[] parameters, Tensor[] pulls, Tensor?[] gradients, "
    "bool[] wanted) -> Tensor[]"
)
for _name, _run, _fake in (
    ("vertex_forward", _forward, _forward_fake),
    ("vertex_backward", _backward, _backward_fake),
):
    _OPERATORS.impl(_name, _run, "CPU")
    _OPERATORS.impl(_name, _run, "CUDA")
    torch.library.register_fake(f"ucudnn::{_name}", _fake, lib=_OPERATORS)
_forward_operator = torch.ops.ucudnn.vertex_forward.default
_backward_operator = torch.ops.ucudnn.vertex_backward.default


def _kinds(tensors):
    return [(tensor.dtype, tensor.shape, tensor.device) for tensor in tensors]


def _check_saved(kinds, tensors):
    """Refuses what a saved-tensor hook brought back as another kind of tensor."""
    if (found := _kinds(tensors)) != kinds:
        pair = next(pair for pair in zip(found, kinds, strict=True) if pair[0] != pair[1])
        found, given = (f"{dtype} {list(shape)} on {device}" for dtype, shape, device in pair)
        raise Refused(f"a saved-tensor hook gave back a tensor of {found}; what it was given, {given}, is accepted")


class _Run(torch.autograd.Function):
    # Saved-tensor hooks may copy a saved tensor, keep it elsewhere, or run forward again for it, as checkpoints do. So
    # the reserve's memory itself is saved. A compiler does not know its size, and saves the tensor that stands for it.

    @staticmethod
    def forward(ctx, net, widths, count, batch, vertices, *tensors):
        *pushes, reserve = _forward_operator(batch, vertices, tensors[:count], tensors[count:], net, widths, True)
        if torch.compiler.is_compiling() or type(reserve) is not torch.Tensor:
            ctx.saved = None
            ctx.save_for_backward(batch, reserve, *tensors)
        else:
            kept, _ = _RESERVES.find(reserve)
            saved = (kept.memory, _ORIGINS.keep(kept.origin), *tensors)
            # The batch stays this run's batch, whatever runs again. And the origin lives on for a copy of its number.
            ctx.batch, ctx.origin = batch, kept.origin
            ctx.saved = _kinds(saved)
            ctx.save_for_backward(*saved)
        ctx.count = count
        ctx.set_materialize_grads(False)
        return tuple(pushes)

    @staticmethod
    def backward(ctx, *gradients):
        first, second, *tensors = ctx.saved_tensors
        if ctx.saved is None:
            batch, reserve = first, [second]
        else:
            batch, reserve = ctx.batch, [first, second]
            _check_saved(ctx.saved, (first, second, *tensors))
        if not torch.compiler.is_compiling():
            _check_transforms([gradient for gradient in gradients if gradient is not None])
        wanted = list(ctx.needs_input_grad[5:])
        parameters, pulls = tensors[: ctx.count], tensors[ctx.count :]
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            found = _Gradients.apply(batch, reserve, wanted, ctx.count, len(tensors), *tensors, *gradients)
        else:
            found = _backward_operator(batch, reserve, parameters, pulls, gradients, wanted)
        found = iter(found)
        return (None, None, None, None, None, *(next(found) if want else None for want in wanted))


class _Gradients(torch.autograd.Function):
    # With create_graph=True. Gradients without a place in autograd's graph would be taken for constants there.

    @staticmethod
    def forward(ctx, batch, reserve, wanted, count, end, *tensors):
        return tuple(_backward_operator(batch, reserve, tensors[:count], tensors[count:end], tensors[end:], wanted))

    @staticmethod
    def backward(ctx, *_):
        raise NotSupported("a net has no second derivatives: its gradients are not differentiable")
