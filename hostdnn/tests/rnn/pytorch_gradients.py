"""pytorch_gradients.py LIBRARY [NETWORKS]: hostdnn's training of RNNs against PyTorch's autograd on the CPU, in double.

Forward in training, then both backward calls, of a random loss on y, hy and cy. Memory that is not to be read is NaN.
"""

import random
import sys

import torch
from pytorch import (Library, Network, address, describe_data, random_lengths, relative_error, sized, state_shapes,
                     strided, temporary_spaces)

BOUND = 1e-11
DOUBLE = 1  # CUDNN_DATA_DOUBLE
TRAINING = 1  # CUDNN_FWD_MODE_TRAINING
ADD = 0  # CUDNN_WGRAD_MODE_ADD
NAN = float("nan")


def autograd(network, x, states, lengths, packed, loss):
    """PyTorch's gradients of x and of the states, by a loss on y and the last states."""
    x = x.clone().requires_grad_()
    states = [state.clone().requires_grad_() for state in states]
    sequence = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    y, last = network.module(sequence, tuple(states) if network.cell == "lstm" else states[0])
    y = y.data if packed else torch.nn.utils.rnn.pad_packed_sequence(y)[0]
    last = last if network.cell == "lstm" else (last,)
    total = sum((result * factor).sum() for result, factor in zip((y, *last), loss) if factor is not None)
    total.backward()
    return x.grad, [state.grad for state in states]


def run(network, rng, lengths, packed):
    """Errors of dx, dhx, dcx and the weights' gradients relative to their norms, and how many arguments were null."""
    library, batch, steps = network.library, len(lengths), max(lengths)
    lstm = network.cell == "lstm"
    x = torch.randn(steps, batch, network.input, dtype=network.dtype)
    given, wanted = ([rng.random() < 0.7 for _ in range(2)] for _ in range(2))
    shapes = state_shapes(network, batch)[:2 if lstm else 1]
    states = [torch.randn(shape, dtype=network.dtype) * here for shape, here in zip(shapes, given)]
    last = [torch.randn(shape, dtype=network.dtype) if here else None for shape, here in zip(shapes, wanted)]
    beyond = torch.arange(steps)[:, None] >= torch.tensor(lengths)  # [steps, batch]
    dy = torch.randn(steps, batch, network.directions * network.projected, dtype=network.dtype)
    dy[beyond] = 0

    def in_memory(rows, padding):
        """Rows `[steps, batch, vector]` as the network's layout has them."""
        if packed:
            return torch.nn.utils.rnn.pack_padded_sequence(rows, lengths).data.contiguous()
        rows = rows.clone()
        rows[beyond] = padding
        return (rows.transpose(0, 1) if network.batch_first else rows).contiguous()

    loss = [in_memory(dy, 0) if packed else dy, *last]
    want_dx, want_states = autograd(network, x, states, lengths, packed, loss)
    rnn = network.describe(padded=not packed)
    want = [in_memory(want_dx, 0), *want_states, network.weight_space(rnn, lambda parameter: parameter.grad)]

    memory, dy = in_memory(x, NAN), in_memory(dy, NAN)
    x_data, y_data = describe_data(network, 1 if packed else 2 if network.batch_first else 0, lengths)
    workspace, reserve = temporary_spaces(network, rnn, TRAINING, x_data)
    h, c = (strided(library, shape, network.kind) for shape in state_shapes(network, batch))
    y, dx = torch.full_like(dy, NAN), torch.full_like(memory, NAN)
    dstates = [torch.full_like(state, NAN) for state in states]
    dweights = torch.zeros_like(network.weights)

    def pair(tensors, here=(True, True)):
        """Pointers to states: null for a cell without them, and where none is to be given."""
        tensors = [tensor if there else None for tensor, there in zip(tensors, here)]
        return [address(tensor) for tensor in (tensors + [None])[:2]]

    (hx, cx), (dhy, dcy), (dhx, dcx) = pair(states, given), pair(last), pair(dstates)
    spaces = [*sized(workspace), *sized(reserve)]
    library("cudnnRNNForward", library.handle, rnn, TRAINING, None, x_data, address(memory), y_data, address(y),
            h, hx, None, c, cx, None, *sized(network.weights), *spaces)
    workspace.fill_(0xFF)
    library("cudnnRNNBackwardData_v8", library.handle, rnn, None, y_data, address(y), address(dy), x_data, address(dx),
            h, hx, dhy, dhx, c, cx, dcy, dcx, *sized(network.weights), *spaces)
    workspace.fill_(0xFF)
    library("cudnnRNNBackwardWeights_v8", library.handle, rnn, ADD, None, x_data, address(memory), h, hx,
            y_data, address(y), *sized(dweights), *spaces)
    nulls = sum(not here for here in given + wanted)
    return [relative_error(got, want) for got, want in zip([dx, *dstates, dweights], want, strict=True)], nulls


def main():
    library, networks = Library(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60
    torch.set_num_threads(1)
    worst, layouts, all_nulls = 0, {}, 0
    for seed in range(networks):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        network = Network(library, rng, torch.float64, DOUBLE)
        packed = rng.random() < 0.35
        lengths = random_lengths(rng, packed)
        errors, nulls = run(network, rng, lengths, packed)
        # Not `>`: NaN must not pass.
        if not all(error <= BOUND for error in errors):
            sys.exit(f"seed {seed}: {network.module}, lengths {lengths}, packed {packed}: {errors}")
        worst, all_nulls = max(worst, *errors), all_nulls + nulls
        layout = (network.cell, "packed" if packed else "batch first" if network.batch_first else "time first")
        layouts[layout] = layouts.get(layout, 0) + 1
    if len(layouts) != 12 or not all_nulls:
        sys.exit(f"not every cell ran in every layout, with null states: {layouts}, {all_nulls}")
    print(f"PyTorch {torch.__version__}: {networks} networks trained alike; worst error {worst}")


main()
