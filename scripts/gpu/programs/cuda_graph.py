"""cuda_graph.py [LIMIT]: cuDNN's plans in CUDA graphs against double precision, plain or preloaded under LIMIT."""

import collections
import os
import pathlib
import sys

import torch
from backend import C, STATUSES, Cudnn, Descriptor, Driver, descriptors, integers, must
from harness.calls import captured, error, largest, worst
from harness.results import whole_lines

MOST_PLANS = 10
REFUSED = "CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API"
GRAPH_NOTE = C["CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API"]
STEPS_TO_SETTLE = 250
REPLAYS = 100


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
        kind = "FLOAT" if virtual or self.kind == torch.float32 else "HALF"
        return Descriptor(
            self.cudnn, "TENSOR", DATA_TYPE=("DATA_TYPE", C[f"CUDNN_DATA_{kind}"]), DIMENSIONS=integers(like.shape),
            STRIDES=integers(like.stride()), UNIQUE_ID=integers([uid]), BYTE_ALIGNMENT=integers([16]),
            IS_VIRTUAL=("BOOLEAN", virtual),
        )  # fmt: skip

    def pointwise(self, mode, **operands):
        what = Descriptor(self.cudnn, "POINTWISE", MODE=("POINTWISE_MODE", C[f"CUDNN_POINTWISE_{mode}"]),
                          MATH_PREC=("DATA_TYPE", C["CUDNN_DATA_FLOAT"]))  # fmt: skip
        operands = {f"{name}DESC": descriptors(it) for name, it in operands.items()}
        return Descriptor(self.cudnn, "OPERATION_POINTWISE", PW_DESCRIPTOR=descriptors(what), **operands)

    def operation_graph(self, memory):
        tensors = [self.tensor(uid, it) for uid, it in enumerate(memory, 1)]
        x, w, y = tensors[:3]
        between = [self.tensor(uid, memory[2], virtual=True) for uid in (10, 11)] if self.fused else [y]
        convolution = Descriptor(
            self.cudnn, "CONVOLUTION", COMP_TYPE=("DATA_TYPE", C["CUDNN_DATA_FLOAT"]),
            CONV_MODE=("CONVOLUTION_MODE", C["CUDNN_CROSS_CORRELATION"]), SPATIAL_DIMS=integers([2]),
            **{name: integers([1, 1]) for name in ("PRE_PADDINGS", "POST_PADDINGS", "FILTER_STRIDES", "DILATIONS")},
        )  # fmt: skip
        kind, short, names = {"F": ("FORWARD", "FORWARD", ("X", "W", "Y")),
                              "BD": ("BACKWARD_DATA", "BWD_DATA", ("DX", "W", "DY")),
                              "BF": ("BACKWARD_FILTER", "BWD_FILTER", ("X", "DW", "DY"))}[self.direction]  # fmt: skip
        operations = [Descriptor(
            self.cudnn, f"OPERATION_CONVOLUTION_{kind}", prefix=f"OPERATION_CONVOLUTION_{short}",
            CONV_DESC=descriptors(convolution), ALPHA=("FLOAT", 1.0), BETA=("FLOAT", 0.0),
            **{name: descriptors(it) for name, it in zip(names, (x, w, between[0]))},
        )]  # fmt: skip
        if self.fused:
            operations.append(self.pointwise("ADD", X=between[0], B=tensors[3], Y=between[1]))
            operations.append(self.pointwise("RELU_FWD", X=between[1], Y=y))
        return Descriptor(self.cudnn, "OPERATIONGRAPH", HANDLE=("HANDLE", self.cudnn.handle), OPS=descriptors(operations))

    def configurations(self):
        heuristics = Descriptor(self.cudnn, "ENGINEHEUR", OPERATION_GRAPH=descriptors(self.graph),
                                MODE=("HEUR_MODE", C["CUDNN_HEUR_MODE_A"]))  # fmt: skip
        offered = [Descriptor(self.cudnn, "ENGINECFG", finalize=False) for _ in range(64)]
        return heuristics.get("RESULTS", "BACKEND_DESCRIPTOR", 64, offered)

    def exact(self, memory):
        x, w, y, *bias = (it.double() for it in memory)
        if self.direction == "BD":
            return torch.nn.grad.conv2d_input(x.shape, w, y, padding=1)
        if self.direction == "BF":
            return torch.nn.grad.conv2d_weight(x, w.shape, y, padding=1)
        out = torch.nn.functional.conv2d(x, w, padding=1)
        return torch.relu(out + bias[0]) if bias else out

    def pack(self, memory, workspace):
        return Descriptor(self.cudnn, "VARIANT_PACK", UNIQUE_IDS=integers(range(1, len(memory) + 1)),
                          DATA_POINTERS=("VOID_PTR", [it.data_ptr() for it in memory]),
                          WORKSPACE=("VOID_PTR", workspace.data_ptr()))  # fmt: skip


def check_plans(cudnn, driver, case, limit, sizes):
    """Each plan of a case: populated, launched, updated, launched; or refused, and executed."""
    library, sets = cudnn.library, [case.memory(), case.memory()]
    exact = [case.exact(memory) for memory in sets]
    counts, errors = collections.Counter(), [0.0]

    def off(which):
        torch.cuda.synchronize()
        errors.append(error(sets[which][case.result], exact[which]))

    for configuration in case.configurations():
        if counts["plans"] == MOST_PLANS:
            break
        plan = Descriptor(cudnn, "EXECUTION_PLAN", finalize=False, HANDLE=("HANDLE", cudnn.handle),
                          ENGINE_CONFIG=descriptors(configuration))  # fmt: skip
        if plan.finalize() != 0:
            continue
        engine = Descriptor(cudnn, "ENGINE", finalize=False)
        configuration.get("ENGINE", "BACKEND_DESCRIPTOR", 1, [engine])
        has_note = GRAPH_NOTE in engine.get("BEHAVIOR_NOTE", "BEHAVIOR_NOTE", 8)
        counts["plans"] += 1
        counts["with the note"] += has_note
        (size,) = plan.get("WORKSPACE_SIZE", "INT64", 1)
        sizes.append(size)
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
    right = largest(errors) < bound and counts["plans"] and (limit or not counts["of these with the note"])
    counted = ", ".join(f"{n} {it}" for it, n in counts.items() if n)
    return "right" if right else "WRONG", f"{largest(errors):.0e} {counted}"


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
        return worst(*zip(*pairs, strict=True))


def check_capture(kind, layout, size, before):
    """Captures a step after `before` steps, and replays it on new data."""
    step, most = Step(kind, layout, size), 0.0
    graph, _ = captured(step.run, before, waits=True)
    for _ in range(REPLAYS):
        step.renew()
        graph.replay()
        torch.cuda.synchronize()
        most = largest([most, step.error()])
    bound = 1e-2 if kind == torch.float16 else 1e-5
    return "right" if most < bound else "WRONG", f"{most:.0e} in {REPLAYS} replays"


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
        case, sizes = Case(cudnn, direction, kind, layout, **more), []
        verdict, what = check_plans(cudnn, driver, case, limit, sizes)
        say(verdict, f"{case.name}: {what}; workspaces of {max(sizes, default=0) >> 10} KiB at most")
    for kind in (torch.float32, torch.float16):
        for layout in (torch.contiguous_format, torch.channels_last):
            for size, before in ((28, STEPS_TO_SETTLE), (20, 1)):
                verdict, what = check_capture(kind, layout, size, before)
                say(verdict, f"captured after {before} steps {str(kind)[6:]} {str(layout)[6:]}: {what}")
    if report := os.environ.get("UCUDNN_REPORT"):
        events = collections.Counter(line["event"] for line in whole_lines(pathlib.Path(report)))
        print(f"{limit or 'unset':5} report: {dict(events)}")
    return all(verdict == "right" for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(not check("".join(sys.argv[1:])))
