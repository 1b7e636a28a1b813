"""pytorch.py LIBRARY [SEEDS]: hostdnn's RNNs against PyTorch's on the CPU, on random networks and data.

Weights are copied by cudnnGetRNNWeightParams, matrix by matrix, so that the two orders of gates are held against each other.
"""

import ctypes
import random
import sys

import torch

CELLS = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}
# Type, cuDNN's number for it, and the largest error relative to the norm.
TYPES = [(torch.float64, 1, 1e-13), (torch.float32, 0, 2e-6)]
FILL = 0.25


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.handle = self.make("cudnnCreate")

    def __call__(self, name, *arguments):
        """Python's integers are C's int; all else says what it is."""
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            text = ctypes.create_string_buffer(300)
            self.library.cudnnGetLastErrorString(text, ctypes.c_size_t(300))
            raise RuntimeError(f"{name}: {status} {text.value.decode()}")

    def make(self, create):
        made = ctypes.c_void_p()
        self(create, ctypes.byref(made))
        return made


def address(tensor):
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def strided(library, shape, kind):
    made = library.make("cudnnCreateTensorDescriptor")
    steps = torch.empty(shape).stride()
    array = ctypes.c_int * len(shape)
    library("cudnnSetTensorNdDescriptor", made, kind, len(shape), array(*shape), array(*steps))
    return made


class Network:
    """One network twice: PyTorch's module, and an RNN descriptor with the same weights."""

    def __init__(self, library, rng, dtype, kind):
        self.library, self.kind, self.dtype = library, kind, dtype
        self.cell = rng.choice(list(CELLS))
        self.layers, self.directions = rng.randint(1, 3), rng.randint(1, 2)
        self.input, self.hidden = rng.randint(1, 20), rng.randint(1, 33)
        self.bias = rng.random() < 0.7
        narrower = self.cell == "lstm" and self.hidden > 1 and rng.random() < 0.3
        self.projected = rng.randint(1, self.hidden - 1) if narrower else self.hidden
        self.batch_first = rng.random() < 0.5
        options = dict(num_layers=self.layers, bias=self.bias, bidirectional=self.directions == 2, dtype=dtype)
        options["batch_first"] = self.batch_first
        if self.cell in ("relu", "tanh"):
            self.module = torch.nn.RNN(self.input, self.hidden, nonlinearity=self.cell, **options)
        elif self.cell == "gru":
            self.module = torch.nn.GRU(self.input, self.hidden, **options)
        else:
            proj_size = self.projected if narrower else 0
            self.module = torch.nn.LSTM(self.input, self.hidden, proj_size=proj_size, **options)
        self.module.eval()

    def describe(self, padded):
        library, size = self.library, ctypes.c_size_t()
        rnn = library.make("cudnnCreateRNNDescriptor")
        library("cudnnSetRNNDescriptor_v8", rnn, 0, CELLS[self.cell], 2 if self.bias else 0, self.directions - 1, 0,
                self.kind, self.kind, 3, self.input, self.hidden, self.projected, self.layers, None, int(padded))
        library("cudnnGetRNNWeightSpaceSize", library.handle, rnn, ctypes.byref(size))
        self.weight_bytes = size.value
        self.weights = self.weight_space(rnn, lambda parameter: parameter)
        return rnn

    def weight_space(self, rnn, of):
        """A weight space with what a function makes of the module's parameters."""
        item = torch.empty(0, dtype=self.dtype).element_size()
        space = torch.full((self.weight_bytes // item,), float("nan"), dtype=self.dtype)
        for layer in range(self.layers):
            for direction in range(self.directions):
                self.copy(rnn, layer, direction, of, space)
        assert not space.isnan().any(), "parts of the weight space that no parameter is copied to"
        return space

    def copy(self, rnn, layer, direction, of, space):
        suffix = f"_l{layer}" + ("_reverse" if direction else "")
        gates = GATES[self.cell]
        for source, first in (("ih", 0), ("hh", gates)):
            matrices = of(getattr(self.module, f"weight_{source}{suffix}")).chunk(gates)
            biases = of(getattr(self.module, f"bias_{source}{suffix}")).chunk(gates) if self.bias else [None] * gates
            for gate in range(gates):
                self.place(rnn, layer * self.directions + direction, first + gate, matrices[gate], biases[gate], space)
        if self.projected != self.hidden:
            projection = of(getattr(self.module, f"weight_hr{suffix}"))
            self.place(rnn, layer * self.directions + direction, 2 * gates, projection, None, space)

    def place(self, rnn, pseudo_layer, id, matrix, bias, space):
        library = self.library
        places = [ctypes.c_void_p(), ctypes.c_void_p()]
        tensors = [library.make("cudnnCreateTensorDescriptor") for _ in places]
        library("cudnnGetRNNWeightParams", library.handle, rnn, pseudo_layer,
                ctypes.c_size_t(space.nbytes), address(space), id,
                tensors[0], ctypes.byref(places[0]), tensors[1], ctypes.byref(places[1]))
        for place, tensor, values in zip(places, tensors, (matrix, bias)):
            assert (place.value is None) == (values is None), (pseudo_layer, id)
            if values is not None:
                size = ctypes.c_size_t()
                library("cudnnGetTensorSizeInBytes", tensor, ctypes.byref(size))
                values = values.detach().contiguous()
                assert size.value == values.nbytes, (pseudo_layer, id, size.value, values.shape)
                ctypes.memmove(place.value, values.data_ptr(), values.nbytes)
            library("cudnnDestroyTensorDescriptor", tensor)


def describe_data(network, layout, lengths):
    """Descriptors of the input and the output."""
    library, fill, data = network.library, torch.tensor(FILL, dtype=network.dtype), []
    for vector in (network.input, network.directions * network.projected):
        data.append(library.make("cudnnCreateRNNDataDescriptor"))
        library("cudnnSetRNNDataDescriptor", data[-1], network.kind, layout, max(lengths), len(lengths), vector,
                (ctypes.c_int * len(lengths))(*lengths), address(fill))
    return data


def state_shapes(network, batch):
    """Shapes of h and c."""
    return [(network.layers * network.directions, batch, size) for size in (network.projected, network.hidden)]


def temporary_spaces(network, rnn, mode, x_data):
    """Workspace and reserve, all of whose bits are set: numbers in them are NaN."""
    library, sizes = network.library, [ctypes.c_size_t(), ctypes.c_size_t()]
    library("cudnnGetRNNTempSpaceSizes", library.handle, rnn, mode, x_data, *map(ctypes.byref, sizes))
    return [torch.full((size.value,), 0xFF, dtype=torch.uint8) for size in sizes]


def sized(tensor):
    """A size argument and the pointer after it."""
    return ctypes.c_size_t(tensor.nbytes), address(tensor)


def relative_error(got, want):
    return ((got - want).norm() / want.norm().clamp(min=1e-3)).item()


def random_lengths(rng, packed):
    steps, batch = rng.randint(1, 9), rng.randint(1, 6)
    lengths = [rng.randint(1, steps) for _ in range(batch)]
    if packed or rng.random() < 0.3:
        lengths.sort(reverse=True)
    return [steps] * batch if rng.random() < 0.3 else lengths


def run(network, rng, lengths, packed):
    """Errors of y, hy and cy relative to their norms."""
    library, module, dtype, kind = network.library, network.module, network.dtype, network.kind
    batch, steps = len(lengths), max(lengths)
    x = torch.randn(steps, batch, network.input, dtype=dtype)
    states = [torch.randn(shape, dtype=dtype) for shape in state_shapes(network, batch)]
    given = rng.random() < 0.5
    if not given:
        states = [None, None]

    # PyTorch knows rows of different lengths as packed sequences alone.
    sequence = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    whole = all(length == steps for length in lengths)
    initial = None if not given else tuple(states) if network.cell == "lstm" else states[0]
    with torch.no_grad():
        if whole and not packed:
            want, last = module(x.transpose(0, 1) if network.batch_first else x, initial)
            want = want.transpose(0, 1) if network.batch_first else want
        else:
            want, last = module(sequence, initial)
            if not packed:
                want, _ = torch.nn.utils.rnn.pad_packed_sequence(want, padding_value=FILL)
    want_states = last if network.cell == "lstm" else (last, None)

    layout = 1 if packed else 2 if network.batch_first else 0
    if packed:
        memory, want = sequence.data.contiguous(), want.data
    else:
        memory = (x.transpose(0, 1) if network.batch_first else x).contiguous()
        want = (want.transpose(0, 1) if network.batch_first else want).contiguous()
    rnn = network.describe(padded=not packed)
    data = describe_data(network, layout, lengths)
    workspace, reserve = temporary_spaces(network, rnn, 0, data[0])
    y = torch.full_like(want, float("nan"))
    got_states = [None if tensor is None else torch.full_like(tensor, float("nan")) for tensor in want_states]
    h, c = (strided(library, shape, kind) for shape in state_shapes(network, batch))
    library("cudnnRNNForward", library.handle, rnn, 0, None, data[0], address(memory), data[1], address(y),
            h, address(states[0]), address(got_states[0]),
            c, address(states[1] if network.cell == "lstm" else None), address(got_states[1]),
            *sized(network.weights), *sized(workspace), *sized(reserve))
    pairs = [(y, want)] + [(got, want) for got, want in zip(got_states, want_states) if want is not None]
    return [relative_error(got, want) for got, want in pairs]


def main():
    library, seeds = Library(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 150
    torch.set_num_threads(1)
    worst, layouts = {}, {}
    for seed in range(seeds):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        for dtype, kind, bound in TYPES:
            network = Network(library, rng, dtype, kind)
            packed = rng.random() < 0.35
            lengths = random_lengths(rng, packed)
            errors = run(network, rng, lengths, packed)
            # Not `>`: NaN must not pass.
            if not all(error <= bound for error in errors):
                sys.exit(f"seed {seed}, {dtype}: {network.module}, lengths {lengths}, packed {packed}: {errors}")
            worst[dtype] = max(worst.get(dtype, 0), *errors)
            layout = (network.cell, "packed" if packed else "batch first" if network.batch_first else "time first")
            layouts[layout] = layouts.get(layout, 0) + 1
    if len(layouts) != 12:
        sys.exit(f"not every cell ran in every layout: {layouts}")
    print(f"PyTorch {torch.__version__}: {2 * seeds} networks alike; worst errors {worst}")


if __name__ == "__main__":
    main()
