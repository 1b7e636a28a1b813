"""libucudnn.so through ctypes: the structures and functions of ucudnn.h that vertex nets need.

A call lets go of Python's global lock while it runs.
"""

import ctypes
import functools
import os.path
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_longlong, c_size_t, c_void_p

# cudnnDataType_t
DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
NOT_SUPPORTED = range(3000, 4000)


class Refused(ValueError):
    """The library did not accept something. The text says what, and what it accepts."""


class NotSupported(Refused, NotImplementedError):
    """The library cannot do this yet, or not on this machine."""


class Operation(ctypes.Structure):
    _fields_ = [("op", c_int), ("inputs", c_int * 3), ("arguments", c_longlong * 2), ("constant", c_double)]


class Function(ctypes.Structure):
    _fields_ = [("children", c_int), ("operationCount", c_int), ("operations", POINTER(Operation))]


class NetDescription(ctypes.Structure):
    _fields_ = [
        *((name, c_int) for name in ("dataType", "allowTf32", "isTraining", "isOnHost", "hostThreads", "isStatic",
                                     "stateCount", "parameterCount", "pullCount", "pushCount", "functionCount")),
        *((name, POINTER(c_int)) for name in ("stateWidths", "pullWidths", "pushWidths")),
        ("parameterSizes", POINTER(c_int * 2)),
        ("functions", POINTER(Function)),
        *((name, c_int) for name in ("loss", "lossPush")),
        *((name, c_longlong) for name in ("maxGraphs", "maxVertices", "maxChildren", "maxLevels")),
        ("configuration", c_char_p),
    ]  # fmt: skip


class GraphsDescription(ctypes.Structure):
    _fields_ = [
        ("graphs", c_longlong),
        ("firstVertex", c_void_p),
        ("firstChild", c_void_p),
        ("children", c_void_p),
        ("kinds", c_void_p),
        ("rows", c_void_p),
    ]


class BatchSizes(ctypes.Structure):
    _fields_ = [(name, c_longlong) for name in ("graphs", "vertices", "children", "levels", "rows")]


class Arguments(ctypes.Structure):
    _fields_ = [
        *((name, POINTER(c_void_p)) for name in ("parameters", "pulls", "pushGradients", "pushes", "pullGradients",
                                                 "parameterGradients")),
        ("accumulatesGradients", c_int),
        ("labels", c_void_p),
        ("loss", c_void_p),
        ("learningRate", c_float),
        ("weightDecay", c_float),
        ("workspace", c_void_p),
        ("reserve", c_void_p),
        ("workspaceSizeInBytes", c_size_t),
        ("reserveSizeInBytes", c_size_t),
    ]  # fmt: skip


class Optimizer(ctypes.Structure):
    _fields_ = [
        ("rule", c_int),
        *((name, c_double) for name in ("momentum", "beta1", "beta2", "epsilon")),
        ("firstMoments", POINTER(c_void_p)),
        ("secondMoments", POINTER(c_void_p)),
        ("betaPowers", c_void_p),
    ]


# The functions that return a status, and the types of their arguments.
_FUNCTIONS = {
    "CreateVertexNet": [POINTER(c_void_p), POINTER(NetDescription)],
    "DestroyVertexNet": [c_void_p],
    "CreateGraphs": [POINTER(c_void_p), POINTER(GraphsDescription)],
    "DestroyGraphs": [c_void_p],
    "CreateGraphBatch": [POINTER(c_void_p), c_void_p],
    "DestroyGraphBatch": [c_void_p],
    "SetGraphBatch": [c_void_p, c_void_p, c_void_p, c_longlong, c_void_p],
    "GetGraphsSizes": [c_void_p, POINTER(BatchSizes)],
    "GetGraphBatchSizes": [c_void_p, POINTER(BatchSizes)],
    "GetVertexNetMemorySize": [c_void_p, c_void_p, POINTER(c_size_t), POINTER(c_size_t)],
    "RunVertexNetForward": [c_void_p, c_void_p, POINTER(Arguments), c_void_p],
    "RunVertexNetBackward": [c_void_p, c_void_p, POINTER(Arguments), c_void_p],
    "RunVertexNetStep": [c_void_p, c_void_p, POINTER(Arguments), c_void_p],
    "RunVertexNetOptimizerStep": [c_void_p, c_void_p, POINTER(Arguments), POINTER(Optimizer), c_void_p],
    "GetVertexNetText": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "GetVertexNetConfiguration": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
}


def _file():
    """The library of the wheel; in a checkout, the optimised one if it is built."""
    here = os.path.dirname(os.path.abspath(__file__))
    wheel = os.path.join(here, "lib", "libucudnn.so")
    built = [os.path.join(here, "../../target", profile, "libucudnn.so") for profile in ("release", "debug")]
    file = next(filter(os.path.exists, [wheel, *built]), None)
    if file is None:
        raise ImportError(f"{wheel} does not exist: install the wheel, or build the checkout")
    return file


@functools.cache
def _loaded():
    loaded = ctypes.CDLL(None)  # what the program was started with, by LD_PRELOAD
    if not hasattr(loaded, "ucudnnCreateVertexNet"):
        loaded = ctypes.CDLL(_file())
    for name, types in _FUNCTIONS.items():
        function = getattr(loaded, f"ucudnn{name}")
        function.argtypes, function.restype = types, c_int
    loaded.ucudnnGetVertexNetErrorString.argtypes = [c_char_p, c_size_t]
    loaded.ucudnnGetVertexNetErrorString.restype = None
    return loaded


def replace_torch_operators():
    """Puts the library's kernels in the place of PyTorch's own. Where that is not supported, the log says why."""
    _loaded().ucudnnReplaceTorchOperators()


@functools.cache
def _function(name):
    return getattr(_loaded(), f"ucudnn{name}")


def call(name, *arguments):
    """Calls ucudnn{name}. Raises Refused if it fails."""
    status = _function(name)(*arguments)
    if status:
        text = ctypes.create_string_buffer(4096)
        _loaded().ucudnnGetVertexNetErrorString(text, len(text))
        kind = NotSupported if status in NOT_SUPPORTED else Refused
        raise kind(text.value.decode(errors="replace") or f"ucudnn{name}: status {status}")


def made(name, *arguments):
    """Calls ucudnn{name}, which makes an object. Returns its handle."""
    handle = c_void_p()
    call(name, ctypes.byref(handle), *arguments)
    return handle.value


def text(name, handle):
    """The text that ucudnn{name} gives for an object."""
    needed = c_size_t()
    call(name, handle, None, 0, ctypes.byref(needed))
    found = ctypes.create_string_buffer(needed.value)
    call(name, handle, found, len(found), ctypes.byref(needed))
    return found.value.decode()


def array(kind, values):
    """A C array."""
    return (kind * len(values))(*values)


