"""rnn_host.py DEVICE STEPS [CUDNN]: the host's time of the calls of an LSTM's training, by cuDNN's functions alone.

It is asked for layers by lines such as "half/H128 B8", and answers each with microseconds: for each call the time until it
returns, which nine of ten calls take at least, and the median. Each pass begins on an idle device. PyTorch asks for sizes
before each call.
"""

import ctypes
import re
import sys
import time

import torch
from harness import calls, turns
from subjects.sizes import CELLS, DOUBLE_BIAS, FLOAT, LAYOUTS, PADDED, TENSOR_OP, TYPES, Cudnn

CALLS = {"sizes": "cudnnGetRNNTempSpaceSizes", "forward": "cudnnRNNForward", "data": "cudnnRNNBackwardData_v8",
         "weights": "cudnnRNNBackwardWeights_v8"}  # fmt: skip
STANDARD, PERSIST_STATIC = 0, 1
TRAINING, ADD = 1, 0
WARM_UP, PASSES = 20, 1000


class Layer:
    """One layer, whose inputs are as wide as H, and the three calls of a pass, ready to be made."""

    def __init__(self, cudnn, algorithm, precision, hidden, batch, steps, device):
        self.cudnn, self.device, self.kept = cudnn, device, []
        kind = TYPES[precision]
        network, no = cudnn.made("cudnnCreateRNNDescriptor"), None
        cudnn.call("cudnnSetRNNDescriptor_v8", network, algorithm, CELLS["lstm"], DOUBLE_BIAS, 0, 0, kind, FLOAT,
                   TENSOR_OP, hidden, hidden, hidden, 1, cudnn.no_dropout, PADDED)  # fmt: skip
        data, state = cudnn.made("cudnnCreateRNNDataDescriptor"), cudnn.made("cudnnCreateTensorDescriptor")
        lengths = (ctypes.c_int * batch)(*[steps] * batch)
        cudnn.call("cudnnSetRNNDataDescriptor", data, kind, LAYOUTS["seq"], steps, batch, hidden, lengths, None)
        dims, strides = ((ctypes.c_int * 5)(*its) for its in ((1, batch, hidden, 1, 1), (batch * hidden, hidden, 1, 1, 1)))
        cudnn.call("cudnnSetTensorNdDescriptor", state, kind, 5, dims, strides)
        weights, workspace, reserve = (ctypes.c_size_t() for _ in range(3))
        cudnn.call("cudnnGetRNNWeightSpaceSize", cudnn.handle, network, ctypes.byref(weights))
        sizes = [cudnn.handle, network, TRAINING, data, ctypes.byref(workspace), ctypes.byref(reserve)]
        cudnn.call("cudnnGetRNNTempSpaceSizes", *sizes)
        rows = steps * batch * hidden * calls.TYPES[precision].itemsize
        x, dx, y, dy = (self.memory(rows) for _ in range(4))
        w, dw, *spaces = (self.memory(size.value) for size in (weights, weights, workspace, reserve))
        spaces = [workspace, spaces[0], reserve, spaces[1]]
        handle, states = cudnn.handle, [state, no, no]
        self.arguments = {
            "sizes": sizes,
            "forward": [handle, network, TRAINING, no, data, x, data, y, *states, *states, weights, w, *spaces],
            "data": [handle, network, no, data, y, dy, data, dx, *states, no, *states, no, weights, w, *spaces],
            "weights": [handle, network, ADD, no, data, x, state, no, data, y, weights, dw, *spaces],
        }

    def memory(self, size):
        self.kept.append(torch.zeros(size, dtype=torch.uint8, device=self.device))
        return ctypes.c_void_p(self.kept[-1].data_ptr())

    def times(self, passes):
        """The microseconds of each call in so many passes."""
        wait, found = calls.waiting(self.device), {name: [] for name in CALLS}
        functions = {name: getattr(self.cudnn.library, function) for name, function in CALLS.items()}
        for _ in range(passes):
            wait()
            for name, function in functions.items():
                begin = time.perf_counter_ns()
                status = function(*self.arguments[name])
                found[name].append((time.perf_counter_ns() - begin) / 1e3)
                if status:
                    raise RuntimeError(f"{CALLS[name]}: status {status}")
        wait()
        return {name: sorted(its) for name, its in found.items()}


def ready(cudnn, device, *sizes):
    """A layer that has run, by the algorithm that PyTorch mostly asks for, or the standard one where cuDNN refuses that."""
    for algorithm in (PERSIST_STATIC, STANDARD):
        try:
            layer = Layer(cudnn, algorithm, *sizes, device)
            layer.times(2 if device == "cpu" else WARM_UP)
            return layer
        except RuntimeError:
            if algorithm == STANDARD:
                raise
    return None


def main(device, steps, file=None):
    # cuDNN's functions take the context of the thread.
    torch.zeros(1, device=device)
    cudnn = Cudnn(file)
    for asked in turns.asked():
        precision, hidden, batch = re.fullmatch(r"(\w+)/H(\d+) B(\d+)", asked).groups()
        layer = ready(cudnn, device, precision, int(hidden), int(batch), int(steps))
        found = layer.times(5 if device == "cpu" else PASSES)
        turns.tell({"case": asked} | {name: [its[len(its) // 10], its[len(its) // 2]] for name, its in found.items()})


main(*sys.argv[1:])
