"""CUDA graphs with cuDNN's plans in them, on an NVIDIA GPU, against double precision.

LD_PRELOAD=libucudnn.so python scripts/gpu_cuda_graph.py      (plain without LD_PRELOAD)

1. cudnnBackendPopulateCudaGraph and cudnnBackendUpdateCudaGraph for each plan that heuristics offer: a graph is
   populated, launched, updated to other memory and launched again. A plan whose engine has the note that it can be put
   into graphs must be, under a limit if anything that can is within it; others may be refused, and then execute.
2. PyTorch's training steps captured into a graph: after enough steps that plans have settled, and at once. Each replay
   works on new data.

All of it with no limit, with 8 MiB a kernel, and with 0.
"""

import collections
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIMITS = ("", "8MiB", "0")
MOST_PLANS = 10
REFUSED = "CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API"
STEPS_TO_SETTLE = 250
REPLAYS = 100

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSTANT = re.compile(r"pub const (\w+): \w+ = (-?\d+);")
C = {
    name: int(value)
    for file in ("graph.rs", "lib.rs")
    for name, value in CONSTANT.findall((ROOT / "cudnn-abi/src" / file).read_text())
}
STATUSES = {value: name for name, value in C.items() if name.startswith("CUDNN_STATUS_")}
# Elements of an attribute's type, for ctypes.
ELEMENTS = {
    "INT64": ctypes.c_int64,
    "BOOLEAN": ctypes.c_bool,
    "FLOAT": ctypes.c_float,
    "VOID_PTR": ctypes.c_void_p,
    "HANDLE": ctypes.c_void_p,
    "BACKEND_DESCRIPTOR": ctypes.c_void_p,
}


class Cudnn:
    """The calls that are needed, of whatever library comes first: the preloaded one, if there is one."""

    def __init__(self):
        library = ctypes.CDLL(None)
        if not hasattr(library, "cudnnBackendExecute"):
            library = ctypes.CDLL("libcudnn.so.9")
        pointer, integer, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        library.cudnnCreate.argtypes = [pointer]
        library.cudnnSetStream.argtypes = [pointer] * 2
        library.cudnnBackendCreateDescriptor.argtypes = [integer, pointer]
        library.cudnnBackendDestroyDescriptor.argtypes = [pointer]
        library.cudnnBackendFinalize.argtypes = [pointer]
        library.cudnnBackendSetAttribute.argtypes = [pointer, integer, integer, long, pointer]
        library.cudnnBackendGetAttribute.argtypes = [pointer, integer, integer, long, pointer, pointer]
        library.cudnnBackendExecute.argtypes = [pointer] * 3
        for name in ("Populate", "Update"):
            getattr(library, f"cudnnBackend{name}CudaGraph").argtypes = [pointer] * 4
        self.library = library
        self.handle = pointer()
        must(library.cudnnCreate(ctypes.byref(self.handle)), "cudnnCreate")


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
        graph = ctypes.c_void_p()
        self.cuGraphCreate(ctypes.byref(graph), 0)
        return graph

    def launch(self, graph):
        """Instantiates and launches a graph once; returns how many nodes it has."""
        executable, count = ctypes.c_void_p(), ctypes.c_size_t()
        self.cuGraphGetNodes(graph, None, ctypes.byref(count))
        self.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        self.cuGraphLaunch(executable, None)
        self.cuCtxSynchronize()
        self.cuGraphExecDestroy(executable)
        return count.value


def must(status, what):
    assert status == 0, f"{what}: {STATUSES.get(status, status)}"


class Descriptor:
    """A backend descriptor. What it is given lives as long as it does."""

    def __init__(self, cudnn, kind, finalize=True, **attributes):
        self.cudnn, self.raw, self.held = cudnn.library, ctypes.c_void_p(), attributes
        kind = C[f"CUDNN_BACKEND_{kind}_DESCRIPTOR"]
        must(self.cudnn.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.raw)), kind)
        for name, (element, values) in attributes.items():
            values = values if isinstance(values, (list, tuple)) else [values]
            values = [value.raw if isinstance(value, Descriptor) else value for value in values]
            array = (ELEMENTS.get(element, ctypes.c_int) * len(values))(*values)
            element = C[f"CUDNN_TYPE_{element}"]
            set_ = self.cudnn.cudnnBackendSetAttribute
            must(set_(self.raw, C[f"CUDNN_ATTR_{name}"], element, len(values), array), name)
        if finalize:
            must(self.finalize(), kind)

    def __del__(self):
        self.cudnn.cudnnBackendDestroyDescriptor(self.raw)

    def finalize(self):
        return self.cudnn.cudnnBackendFinalize(self.raw)

    def get(self, name, element, room, of=None):
        """At most `room` elements; descriptors are written to those of `of`."""
        array = (ELEMENTS.get(element, ctypes.c_int) * max(room, 1))(*[it.raw for it in of or []])
        count = ctypes.c_int64(0)
        get = self.cudnn.cudnnBackendGetAttribute
        status = get(self.raw, C[f"CUDNN_ATTR_{name}"], C[f"CUDNN_TYPE_{element}"], room, ctypes.byref(count), array)
        must(status, name)
        return (of or list(array))[: count.value]


def integers(values):
    return "INT64", list(values)


def descriptors(values):
    return "BACKEND_DESCRIPTOR", values


class Case:
    """A convolution, alone or with bias and ReLU, over memory of PyTorch's."""

    def __init__(self, cudnn, direction, kind, layout, batch=64, channels=32, filters=64, size=28, fused=False):
        self.cudnn, self.direction, self.kind, self.fused = cudnn, direction, kind, fused
        self.name = f"{direction}{'+bias+relu' if fused else ''} {str(kind)[6:]} {layout}"
        self.format = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        self.shapes = [(batch, channels, size, size), (filters, channels, 3, 3), (batch, filters, size, size)]
        self.shapes += [(1, filters, 1, 1)] if fused else []
        self.result = {"F": 2, "BD": 0, "BF": 1}[direction]
        self.graph = self.operation_graph(self.memory())

    def memory(self):
        scales = (1, self.shapes[1][1] ** -0.5 / 3, 1, 1)
        make = lambda shape, scale: (torch.randn(shape, device="cuda") * scale).to(self.kind)
        return [make(*it).to(memory_format=self.format) for it in zip(self.shapes, scales)]

    def tensor(self, uid, like, virtual=False):
        kind = {torch.float32: "FLOAT", torch.float16: "HALF"}[self.kind]
        return Descriptor(
            self.cudnn,
            "TENSOR",
            TENSOR_DATA_TYPE=("DATA_TYPE", C["CUDNN_DATA_FLOAT" if virtual else f"CUDNN_DATA_{kind}"]),
            TENSOR_DIMENSIONS=integers(like.shape),
            TENSOR_STRIDES=integers(like.stride()),
            TENSOR_UNIQUE_ID=integers([uid]),
            TENSOR_BYTE_ALIGNMENT=integers([16]),
            TENSOR_IS_VIRTUAL=("BOOLEAN", virtual),
        )

    def pointwise(self, mode, **operands):
        what = Descriptor(
            self.cudnn,
            "POINTWISE",
            POINTWISE_MODE=("POINTWISE_MODE", C[f"CUDNN_POINTWISE_{mode}"]),
            POINTWISE_MATH_PREC=("DATA_TYPE", C["CUDNN_DATA_FLOAT"]),
        )
        operands = {f"OPERATION_POINTWISE_{name}DESC": descriptors(it) for name, it in operands.items()}
        return Descriptor(
            self.cudnn, "OPERATION_POINTWISE", OPERATION_POINTWISE_PW_DESCRIPTOR=descriptors(what), **operands
        )

    def operation_graph(self, memory):
        tensors = [self.tensor(uid, it) for uid, it in enumerate(memory, 1)]
        x, w, y = tensors[:3]
        between = [self.tensor(uid, memory[2], virtual=True) for uid in (10, 11)] if self.fused else [y]
        convolution = Descriptor(
            self.cudnn,
            "CONVOLUTION",
            CONVOLUTION_COMP_TYPE=("DATA_TYPE", C["CUDNN_DATA_FLOAT"]),
            CONVOLUTION_CONV_MODE=("CONVOLUTION_MODE", C["CUDNN_CROSS_CORRELATION"]),
            CONVOLUTION_SPATIAL_DIMS=integers([2]),
            CONVOLUTION_PRE_PADDINGS=integers([1, 1]),
            CONVOLUTION_POST_PADDINGS=integers([1, 1]),
            CONVOLUTION_FILTER_STRIDES=integers([1, 1]),
            CONVOLUTION_DILATIONS=integers([1, 1]),
        )
        kind, names = {
            "F": ("FORWARD", "FORWARD_{} X W Y"),
            "BD": ("BACKWARD_DATA", "BWD_DATA_{} DX W DY"),
            "BF": ("BACKWARD_FILTER", "BWD_FILTER_{} X DW DY"),
        }[self.direction]
        prefix, *names = names.split()
        attribute = lambda name: "OPERATION_CONVOLUTION_" + prefix.format(name)
        operations = [
            Descriptor(
                self.cudnn,
                f"OPERATION_CONVOLUTION_{kind}",
                **{attribute("CONV_DESC"): descriptors(convolution)},
                **{attribute(name): descriptors(it) for name, it in zip(names, (x, w, between[0]))},
                **{attribute(name): ("FLOAT", value) for name, value in (("ALPHA", 1.0), ("BETA", 0.0))},
            )
        ]
        if self.fused:
            operations.append(self.pointwise("ADD", X=between[0], B=tensors[3], Y=between[1]))
            operations.append(self.pointwise("RELU_FWD", X=between[1], Y=y))
        return Descriptor(
            self.cudnn,
            "OPERATIONGRAPH",
            OPERATIONGRAPH_HANDLE=("HANDLE", self.cudnn.handle),
            OPERATIONGRAPH_OPS=descriptors(operations),
        )

    def configurations(self):
        heuristics = Descriptor(
            self.cudnn,
            "ENGINEHEUR",
            ENGINEHEUR_OPERATION_GRAPH=descriptors(self.graph),
            ENGINEHEUR_MODE=("HEUR_MODE", C["CUDNN_HEUR_MODE_A"]),
        )
        offered = [Descriptor(self.cudnn, "ENGINECFG", finalize=False) for _ in range(64)]
        return heuristics.get("ENGINEHEUR_RESULTS", "BACKEND_DESCRIPTOR", 64, offered)

    def exact(self, memory):
        x, w, y, *bias = (it.double() for it in memory)
        if self.direction == "BD":
            return torch.nn.grad.conv2d_input(x.shape, w, y, padding=1)
        if self.direction == "BF":
            return torch.nn.grad.conv2d_weight(x, w.shape, y, padding=1)
        out = torch.nn.functional.conv2d(x, w, padding=1)
        return torch.relu(out + bias[0]) if bias else out

    def pack(self, memory, workspace):
        return Descriptor(
            self.cudnn,
            "VARIANT_PACK",
            VARIANT_PACK_UNIQUE_IDS=integers(range(1, len(memory) + 1)),
            VARIANT_PACK_DATA_POINTERS=("VOID_PTR", [it.data_ptr() for it in memory]),
            VARIANT_PACK_WORKSPACE=("VOID_PTR", workspace.data_ptr()),
        )


def error(result, exact):
    return ((result.double() - exact).norm() / exact.norm()).item()


def check_plans(cudnn, driver, case, limit, told):
    """Each plan of a case: populated, launched, updated, launched; or refused, and executed."""
    library, sets = cudnn.library, [case.memory(), case.memory()]
    exact = [case.exact(memory) for memory in sets]
    counts, worst = collections.Counter(), 0.0

    def off(which):
        nonlocal worst
        torch.cuda.synchronize()
        found = error(sets[which][case.result], exact[which])
        worst = max(worst, found if found == found else float("inf"))

    for configuration in case.configurations():
        if counts["plans"] == MOST_PLANS:
            break
        plan = Descriptor(
            cudnn,
            "EXECUTION_PLAN",
            finalize=False,
            EXECUTION_PLAN_HANDLE=("HANDLE", cudnn.handle),
            EXECUTION_PLAN_ENGINE_CONFIG=descriptors(configuration),
        )
        if plan.finalize() != 0:
            continue
        engine = Descriptor(cudnn, "ENGINE", finalize=False)
        configuration.get("ENGINECFG_ENGINE", "BACKEND_DESCRIPTOR", 1, [engine])
        has_note = C["CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API"] in engine.get(
            "ENGINE_BEHAVIOR_NOTE", "BEHAVIOR_NOTE", 8
        )
        counts["plans"] += 1
        counts["with the note"] += has_note
        (size,) = plan.get("EXECUTION_PLAN_WORKSPACE_SIZE", "INT64", 1)
        told.append(size)
        workspace = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")
        packs = [case.pack(memory, workspace) for memory in sets]
        for memory in sets:
            memory[case.result].fill_(float("nan"))
        torch.cuda.synchronize()
        graph = driver.new_graph()
        status = library.cudnnBackendPopulateCudaGraph(cudnn.handle, plan.raw, packs[0].raw, graph)
        if status == 0:
            counts["populated"] += 1
            counts["nodes"] += driver.launch(graph)
            off(0)
            status = library.cudnnBackendUpdateCudaGraph(cudnn.handle, plan.raw, packs[1].raw, graph)
            must(status, f"{case.name}: update")
            driver.launch(graph)
            off(1)
        else:
            name = STATUSES.get(status, str(status))
            counts["refused" if name == REFUSED else name] += 1
            counts["of these with the note"] += has_note
            must(library.cudnnBackendExecute(cudnn.handle, plan.raw, packs[0].raw), f"{case.name}: execute")
            off(0)
        driver.cuGraphDestroy(graph)
    bound = 4e-3 if case.kind == torch.float16 else 2e-3  # of TF32, which the engines of float may take
    right = worst < bound and counts["plans"] and (limit or not counts["of these with the note"])
    return "right" if right else "WRONG", f"{worst:.0e} " + ", ".join(f"{n} {it}" for it, n in counts.items() if n)


class Step:
    """Three convolutions' forward and backward passes on data that stays where it is."""

    def __init__(self, kind, layout, size):
        torch.manual_seed(size)
        self.model = self.layers().to(device="cuda", dtype=kind, memory_format=layout)
        self.x = torch.empty(32, 8, size, size, device="cuda", dtype=kind).to(memory_format=layout)
        self.renew()

    def layers(self):
        return torch.nn.Sequential(*[torch.nn.Conv2d(*it, 3, padding=1) for it in ((8, 32), (32, 64), (64, 64))])

    def renew(self):
        self.x.copy_(torch.randn(self.x.shape, device="cuda"))

    def run(self):
        self.model.zero_grad(set_to_none=False)
        self.out = self.model(self.x)
        self.out.sum().backward()

    def error(self):
        """Of the result and of the first and the last gradients."""
        exact = self.layers().to(device="cuda", dtype=torch.double)
        exact.load_state_dict({name: it.double() for name, it in self.model.state_dict().items()})
        out = exact(self.x.double())
        out.sum().backward()
        pairs = [(self.out, out)] + [(self.model[i].weight.grad, exact[i].weight.grad) for i in (0, 2)]
        return max(error(a.detach(), b.detach()) for a, b in pairs)


def check_capture(kind, layout, size, before):
    """Captures a step after `before` steps, and replays it on new data."""
    step, side = Step(kind, layout, size), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(before):
            step.run()
            side.synchronize()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.run()
    worst = 0.0
    for _ in range(REPLAYS):
        step.renew()
        graph.replay()
        torch.cuda.synchronize()
        found = step.error()
        worst = max(worst, found if found == found else float("inf"))
    bound = 1e-2 if kind == torch.float16 else 1e-5
    return "right" if worst < bound else "WRONG", f"{worst:.0e} in {REPLAYS} replays"


def check(limit):
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)
    verdicts = []

    def say(verdict, what):
        verdicts.append(verdict)
        print(f"{limit or 'unset':5} {verdict} {what}", flush=True)

    torch.zeros(1, device="cuda")
    cudnn, driver = Cudnn(), Driver()
    cases = [(it, kind, "nchw", {}) for kind in (torch.float32, torch.float16) for it in ("F", "BD", "BF")]
    cases += [("F", torch.float16, "nhwc", {}), ("F", torch.float16, "nhwc", {"fused": True})]
    for direction, kind, layout, more in cases:
        case, told = Case(cudnn, direction, kind, layout, **more), []
        verdict, what = check_plans(cudnn, driver, case, limit, told)
        say(verdict, f"{case.name}: {what}; tells {max(told, default=0) >> 10} KiB at most")
    for kind in (torch.float32, torch.float16):
        for layout in (torch.contiguous_format, torch.channels_last):
            for size, before in ((28, STEPS_TO_SETTLE), (20, 1)):
                verdict, what = check_capture(kind, layout, size, before)
                say(verdict, f"captured after {before} steps {str(kind)[6:]} {str(layout)[6:]}: {what}")
    report = os.environ.get("UCUDNN_REPORT")
    if report and os.path.exists(report):
        with open(report) as lines:
            events = collections.Counter(json.loads(line)["event"] for line in lines)
        print(f"{limit or 'unset':5} report: {dict(events)}")
    return all(verdict == "right" for verdict in verdicts)


def main():
    right = True
    with tempfile.TemporaryDirectory() as folder:
        for limit in LIMITS:
            variables = {"UCUDNN_WORKSPACE_LIMIT": limit, "UCUDNN_REPORT": f"{folder}/{limit}.jsonl"}
            command = [sys.executable, "-W", "ignore", __file__, "limit", limit]
            ended = subprocess.run(command, env=os.environ | variables)
            right &= ended.returncode == 0
    print("all right" if right else "WRONG")
    return not right


if __name__ == "__main__":
    if sys.argv[1:2] == ["limit"]:
        import torch

        sys.exit(not check(sys.argv[2]))
    sys.exit(main())
