"""rnn_calls.py SECONDS cuda|cpu [HIDDEN BATCH STEPS float|half]...: runs LSTMs one after the other, or six recurrent networks
in turns.

It waits for each call, and prints for each the begin and the milliseconds; before them the network if there are several.
"""

import csv
import sys
import time

import torch
from harness.calls import TYPES, waiting
from torch.nn.utils.rnn import pack_padded_sequence


def networks(device, hidden=256, batch=4, steps=100):
    """Name, model and input of each of the six."""
    half = "half" if device == "cuda" else "bfloat16"
    kinds = {
        "LSTM": (torch.nn.LSTM, {}, "float"), "GRU": (torch.nn.GRU, {}, "float"),
        "LSTM in half": (torch.nn.LSTM, {}, half), "GRU, 2 layers": (torch.nn.GRU, {"num_layers": 2}, "float"),
        "LSTM, both directions": (torch.nn.LSTM, {"bidirectional": True}, half),
        "GRU, packed": (torch.nn.GRU, {}, "float"),
    }  # fmt: skip
    for name, (make, arguments, kind) in kinds.items():
        x = torch.randn(steps, batch, hidden).to(device, TYPES[kind])
        if "packed" in name:
            x = pack_padded_sequence(x, torch.linspace(steps, steps // 4, batch).long())
        yield (name,), make(hidden, hidden, **arguments).to(device, TYPES[kind]).eval(), x


def single(device, name, hidden, batch, steps, kind):
    hidden, place = int(hidden), (device, TYPES[kind])
    x = torch.randn(int(steps), int(batch), hidden).to(*place)
    yield name, torch.nn.LSTM(hidden, hidden).to(*place).eval(), x


def main(seconds, device, *words):
    ones = [words[at : at + 4] for at in range(0, len(words), 4)]
    if not ones:
        return run(seconds, device, list(networks(device)), 1)
    for number, one in enumerate(ones):
        run(seconds, device, list(single(device, (number,) if len(ones) > 1 else (), *one)), 5)
    return None


def run(seconds, device, made, first):
    """Calls networks in turns, each of them so many times before that."""
    wait, calls = waiting(device), []
    with torch.inference_mode():
        # In its first calls cuDNN loads its kernels, plain and under the library.
        for _, model, x in made:
            for _ in range(first):
                model(x)
        wait()
        start = time.perf_counter()
        while time.perf_counter() - start < float(seconds):
            for name, model, x in made:
                begin = time.perf_counter()
                model(x)
                wait()
                calls.append((*name, begin - start, 1e3 * (time.perf_counter() - begin)))
    csv.writer(sys.stdout).writerows(calls)
    sys.stdout.flush()


main(*sys.argv[1:])
