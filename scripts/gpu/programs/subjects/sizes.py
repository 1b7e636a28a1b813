"""Sizes of RNN spaces, asked for again and again by cuDNN's functions: equal arguments get an equal answer."""

import ctypes

import torch

from . import Sized

CELLS = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
TYPES = {"float": 0, "half": 2, "bfloat16": 9}
FLOAT, DOUBLE_BIAS, PADDED = 0, 2, 1
LAYOUTS = {"seq": 0, "packed": 1, "batch": 2}
TENSOR_OP = 1


class Cudnn:
    """cuDNN as the process has it, through the library where that is preloaded, or the one of a file."""

    def __init__(self, file=None):
        self.library = ctypes.CDLL(file)
        if not hasattr(self.library, "cudnnCreate"):
            self.library = ctypes.CDLL("libcudnn.so.9")
        self.handle = self.made("cudnnCreate")
        self.no_dropout = self.made("cudnnCreateDropoutDescriptor")
        self.call("cudnnSetDropoutDescriptor", self.no_dropout, self.handle, ctypes.c_float(0), None, ctypes.c_size_t(0),
                  ctypes.c_ulonglong(0))  # fmt: skip

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: status {status}")

    def made(self, name, *arguments):
        """What a function creates."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def sizes(self, its, is_training):
        """Workspace and reserve of a network, by descriptors that are made for it and destroyed."""
        kind = TYPES[its["precision"]]
        network, data = self.made("cudnnCreateRNNDescriptor"), self.made("cudnnCreateRNNDataDescriptor")
        self.call("cudnnSetRNNDescriptor_v8", network, 0, CELLS[its["cell"]], DOUBLE_BIAS if its["bias"] else 0,
                  its["directions"] - 1, 0, kind, FLOAT, TENSOR_OP, its["input"], its["hidden"],
                  its["projection"] or its["hidden"], its["layers"], self.no_dropout, 0 if its["layout"] == "packed" else PADDED)  # fmt: skip
        lengths = (ctypes.c_int * len(its["lengths"]))(*its["lengths"])
        self.call("cudnnSetRNNDataDescriptor", data, kind, LAYOUTS[its["layout"]], max(lengths), len(lengths), its["input"],
                  lengths, None)  # fmt: skip
        workspace, reserve = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cudnnGetRNNTempSpaceSizes", self.handle, network, int(is_training), data, ctypes.byref(workspace),
                  ctypes.byref(reserve))  # fmt: skip
        self.call("cudnnDestroyRNNDataDescriptor", data)
        self.call("cudnnDestroyRNNDescriptor", network)
        return workspace.value, reserve.value


class Subject(Sized):
    def __init__(self, case, device):
        self.case, self.cudnn = case, Cudnn()
        self.answers, self.wrong = {}, []

    def renew(self, which):
        pass

    def run(self):
        for number, is_training in self.case["asks"]:
            its = self.case["networks"][number]
            found = self.cudnn.sizes(its, is_training)
            first = self.answers.setdefault((number, is_training), found)
            if found != first:
                what = f"network {number} ({its['cell']}, H {its['hidden']})"
                self.wrong.append(f"{what}: workspace and reserve {first}, then {found}")
        return {"sizes": torch.tensor([self.answers[key] for key in sorted(self.answers)], dtype=torch.float64)}

    def exact(self, which):
        return self.run()

    def traits(self, name):
        return {"precision": "float", "depth": 1, "chain": 1, "goes_by_plain": True}
