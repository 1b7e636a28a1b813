"""several_rnns.py SECONDS cuda|cpu: runs six recurrent networks in turns, waiting for each call, and prints for each
call the network, the begin and the milliseconds."""

import csv
import sys
import time

import torch
from torch.nn.utils.rnn import pack_padded_sequence

HIDDEN, BATCH, STEPS = 256, 4, 100


def networks(device):
    """Name, model and input of each."""
    full, half = torch.float32, torch.float16 if device == "cuda" else torch.bfloat16
    kinds = {
        "LSTM": (torch.nn.LSTM, {}, full), "GRU": (torch.nn.GRU, {}, full),
        "LSTM in half": (torch.nn.LSTM, {}, half), "GRU, 2 layers": (torch.nn.GRU, {"num_layers": 2}, full),
        "LSTM, both directions": (torch.nn.LSTM, {"bidirectional": True}, half), "GRU, packed": (torch.nn.GRU, {}, full),
    }  # fmt: skip
    for name, (make, arguments, data_type) in kinds.items():
        x = torch.randn(STEPS, BATCH, HIDDEN).to(device, data_type)
        if "packed" in name:
            x = pack_padded_sequence(x, torch.linspace(STEPS, STEPS // 4, BATCH).long())
        yield name, make(HIDDEN, HIDDEN, **arguments).to(device, data_type).eval(), x


def main(seconds, device):
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    all_ = list(networks(device))
    calls = []
    with torch.inference_mode():
        # In its first calls cuDNN loads its kernels, plain and under the library.
        for _, model, x in all_:
            model(x)
        wait()
        start = time.perf_counter()
        while time.perf_counter() - start < float(seconds):
            for name, model, x in all_:
                begin = time.perf_counter()
                model(x)
                wait()
                calls.append((name, begin - start, 1e3 * (time.perf_counter() - begin)))
    csv.writer(sys.stdout).writerows(calls)


main(*sys.argv[1:])
