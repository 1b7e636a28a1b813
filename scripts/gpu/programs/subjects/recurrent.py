"""Recurrent networks: inference, and training with the reserves of several networks and passes at once."""

import contextlib
import copy

import torch
from harness.calls import TYPES, allow_tf32
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from . import Normal, Sized, replace


def module_of(case):
    its = (case["input"], case["hidden"], case["layers"])
    more = {"bias": case["bias"], "bidirectional": case["directions"] == 2, "batch_first": case["layout"] == "batch"}
    if case["projection"]:
        more["proj_size"] = case["projection"]
    if case["cell"] in ("lstm", "gru"):
        return {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[case["cell"]](*its, **more)
    return torch.nn.RNN(*its, nonlinearity=case["cell"], **more)


class Network:
    """A network with its data: x, the states and the gradients of all results."""

    def __init__(self, case, device, normal):
        self.case, kind = case, TYPES[case["precision"]]
        self.module = module_of(case).to(device, kind).train(case["training"])
        steps, batch, lengths = case["steps"], case["batch"], case["lengths"]
        self.packed = None
        shape, h_width = [steps, batch, case["input"]], case["projection"] or case["hidden"]
        if case["layout"] == "batch":
            shape[:2] = batch, steps
        if case["layout"] in ("packed", "unsorted"):
            like = torch.zeros(steps, batch, 1)
            packed = pack_padded_sequence(like, lengths, enforce_sorted=case["layout"] == "packed")
            orders = [None if it is None else it.to(device) for it in (packed.sorted_indices, packed.unsorted_indices)]
            self.packed = (packed.batch_sizes, *orders)
            shape = [sum(lengths), case["input"]]
        widths = [h_width, case["hidden"]][: 2 if case["cell"] == "lstm" else 1]
        states = [[case["layers"] * case["directions"], batch, width] for width in widths]
        self.names = ["y", "hn", "cn"][: 1 + len(states)]

        def data():
            scale = (3 * case["hidden"]) ** -0.5  # as PyTorch's uniform numbers
            weights = [normal(*its.shape, scale=scale, dtype=kind) for its in self.module.parameters()]
            first = [normal(*state, dtype=kind) for state in (states if case["states"] else [])]
            results = [[*shape[:-1], h_width * case["directions"]], *states]
            return [normal(*shape, dtype=kind), *first, *weights], [normal(*its, dtype=kind) for its in results]

        self.data = [data(), data()]
        self.count = len(states) if case["states"] else 0
        x, *others = (tensor.clone() for tensor in self.data[0][0])
        self.leaves = [x, *others[: self.count], *self.module.parameters()]
        self.factors = [tensor.clone() for tensor in self.data[0][1]]
        for leaf in self.leaves:
            leaf.requires_grad_(case["training"])

    def renew(self, which):
        replace(self.leaves, self.data[which][0])
        replace(self.factors, self.data[which][1])

    def forward(self, module=None, leaves=None):
        """y and the last states."""
        x, *states = (leaves or self.leaves)[: 1 + self.count]
        given = x if self.packed is None else PackedSequence(x, *self.packed)
        first = (tuple(states) if len(states) > 1 else states[0]) if states else None
        y, last = (module or self.module)(given, first)
        return [y if self.packed is None else y.data, *(last if isinstance(last, tuple) else [last])]

    def gradients(self, results, leaves=None, factors=None, retain=False):
        return torch.autograd.grad(results, leaves or self.leaves, factors or self.factors, retain_graph=retain)

    def named(self, results, gradients=()):
        of_weights = [f"d {name}" for name, _ in self.module.named_parameters()]
        names = ["dx", "dh", "dc"][: 1 + self.count] + of_weights
        results = dict(zip(self.names, (result.detach() for result in results), strict=True))
        return results | dict(zip(names, gradients, strict=False))

    def exact(self, which):
        module = copy.deepcopy(self.module).double()
        given, factors = self.data[which]
        leaves = [tensor.double() for tensor in given]
        replace(module.parameters(), leaves[1 + self.count :])
        given = [tensor.requires_grad_(self.case["training"]) for tensor in leaves[: 1 + self.count]]
        leaves = [*given, *module.parameters()]
        # PyTorch's own loops, and not cuDNN.
        torch.backends.cudnn.enabled = False
        try:
            results = self.forward(module, leaves)
            if not self.case["training"]:
                return self.named(results)
            return self.named(results, self.gradients(results, leaves, [factor.double() for factor in factors]))
        finally:
            torch.backends.cudnn.enabled = True


class Subject(Sized):
    def __init__(self, case, device):
        self.case = case
        allow_tf32(case["precision"] == "tf32")
        torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
        normal = Normal(case, device)
        self.networks = [Network(case, device, normal) for _ in range(case["alive"])]
        # The networks in the order of their passes forward.
        self.passes = [*range(case["alive"]), *([0] if case["twice"] else [])]

    def renew(self, which):
        for network in self.networks:
            network.renew(which)

    def run(self):
        if not self.case["training"]:
            with torch.no_grad():
                return self._named({0: self.networks[0].named(self.networks[0].forward())})
        offload = torch.autograd.graph.save_on_cpu() if self.case["offload"] else contextlib.nullcontext()
        found, alive = {}, []
        with offload:
            for place in self.passes:
                alive.append(self.networks[place].forward())
        # The first pass goes back first if there are two, the last one if there are three: reserves wait for each other.
        for place in sorted(range(len(alive)), key=lambda place: (place + len(alive)) % 3):
            network = self.networks[self.passes[place]]
            gradients = network.gradients(alive[place], retain=self.case["retain"])
            if self.case["retain"]:
                gradients = network.gradients(alive[place])
            found[place] = network.named(alive[place], gradients)
        return self._named(found)

    def _named(self, found):
        return {f"{place}: {name}": tensor for place, its in sorted(found.items()) for name, tensor in its.items()}

    def exact(self, which):
        of_networks = [network.exact(which) for network in self.networks]
        return self._named({place: of_networks[number] for place, number in enumerate(self.passes)})

    def traits(self, name):
        case = self.case
        chain = case["steps"] * case["layers"]
        depth = (case["hidden"] + case["input"]) * chain * (4 if name.partition(": ")[2].startswith("d") else 1)
        if ": d " in name:
            depth += case["steps"] * case["batch"]
        return {"precision": case["precision"], "depth": depth, "chain": chain, "goes_by_plain": False}
