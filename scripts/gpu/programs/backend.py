"""cuDNN's backend API and CUDA's driver, by ctypes. Constants are read from crates/cudnn-abi."""

import ctypes
import pathlib
import re

ABI = pathlib.Path(__file__).resolve().parents[3] / "crates/cudnn-abi/src"
CONSTANT = re.compile(r"pub const (\w+): \w+ = (-?\d+);")
C = {name: int(value) for file in ("graph.rs", "lib.rs") for name, value in CONSTANT.findall((ABI / file).read_text())}
STATUSES = {value: name for name, value in C.items() if name.startswith("CUDNN_STATUS_")}
# Elements of an attribute's type, for ctypes; enumerations are ints.
ELEMENTS = {"INT64": ctypes.c_int64, "BOOLEAN": ctypes.c_bool, "FLOAT": ctypes.c_float} | dict.fromkeys(
    ("VOID_PTR", "HANDLE", "BACKEND_DESCRIPTOR"), ctypes.c_void_p)  # fmt: skip
POINTER, INT, LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
ARGUMENTS = {
    "cudnnCreate": [POINTER], "cudnnBackendCreateDescriptor": [INT, POINTER], "cudnnBackendDestroyDescriptor": [POINTER],
    "cudnnBackendFinalize": [POINTER], "cudnnBackendSetAttribute": [POINTER, INT, INT, LONG, POINTER],
    "cudnnBackendGetAttribute": [POINTER, INT, INT, LONG, POINTER, POINTER], "cudnnBackendExecute": [POINTER] * 3,
    "cudnnBackendPopulateCudaGraph": [POINTER] * 4, "cudnnBackendUpdateCudaGraph": [POINTER] * 4,
}  # fmt: skip


class Cudnn:
    """The calls that are needed, of the library that comes first: the preloaded one, if there is one."""

    def __init__(self):
        self.library = ctypes.CDLL(None)
        if not hasattr(self.library, "cudnnBackendExecute"):
            self.library = ctypes.CDLL("libcudnn.so.9")
        for name, arguments in ARGUMENTS.items():
            getattr(self.library, name).argtypes = arguments
        self.handle = POINTER()
        must(self.library.cudnnCreate(ctypes.byref(self.handle)), "cudnnCreate")


class Driver:
    """CUDA's driver: each call must succeed."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        def call(*arguments):
            status = getattr(self.library, name)(*arguments)
            assert status == 0, f"{name}: {status}"

        return call

    def new_graph(self):
        graph = POINTER()
        self.cuGraphCreate(ctypes.byref(graph), 0)
        return graph

    def launch(self, graph):
        """Instantiates and launches a graph once; returns how many nodes it has."""
        executable, count = POINTER(), ctypes.c_size_t()
        self.cuGraphGetNodes(graph, None, ctypes.byref(count))
        self.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        self.cuGraphLaunch(executable, None)
        self.cuCtxSynchronize()
        self.cuGraphExecDestroy(executable)
        return count.value


def must(status, what):
    assert status == 0, f"{what}: {STATUSES.get(status, status)}"


class Descriptor:
    """A backend descriptor. `attributes` are (type, value or values) by name, without `prefix`, which is mostly `kind`.
    They live as long as the descriptor."""

    def __init__(self, cudnn, kind, prefix=None, finalize=True, **attributes):
        self.cudnn, self.raw, self.held, self.prefix = cudnn.library, POINTER(), attributes, prefix or kind
        create = self.cudnn.cudnnBackendCreateDescriptor
        must(create(C[f"CUDNN_BACKEND_{kind}_DESCRIPTOR"], ctypes.byref(self.raw)), kind)
        for name, (element, values) in attributes.items():
            values = values if isinstance(values, (list, tuple)) else [values]
            values = [value.raw if isinstance(value, Descriptor) else value for value in values]
            array = (ELEMENTS.get(element, INT) * len(values))(*values)
            set_ = self.cudnn.cudnnBackendSetAttribute
            must(set_(self.raw, self.attribute(name), C[f"CUDNN_TYPE_{element}"], len(values), array), name)
        if finalize:
            must(self.finalize(), kind)

    def __del__(self):
        self.cudnn.cudnnBackendDestroyDescriptor(self.raw)

    def attribute(self, name):
        return C[f"CUDNN_ATTR_{self.prefix}_{name}"]

    def finalize(self):
        return self.cudnn.cudnnBackendFinalize(self.raw)

    def get(self, name, element, room, of=None):
        """At most `room` elements; descriptors are written to those of `of`."""
        array = (ELEMENTS.get(element, INT) * max(room, 1))(*[it.raw for it in of or []])
        count, get = LONG(0), self.cudnn.cudnnBackendGetAttribute
        status = get(self.raw, self.attribute(name), C[f"CUDNN_TYPE_{element}"], room, ctypes.byref(count), array)
        must(status, name)
        return (of or list(array))[: count.value]


def integers(values):
    return "INT64", list(values)


def descriptors(values):
    return "BACKEND_DESCRIPTOR", values
