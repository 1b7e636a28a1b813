"""rnn_calls.py HIDDEN BATCH STEPS SECONDS float|half cuda|cpu: runs an LSTM, waiting for each call, and prints the
begin of each call and its milliseconds."""

import csv
import sys
import time

import torch


def main(hidden, batch, steps, seconds, data_type, device):
    hidden, batch, steps = map(int, (hidden, batch, steps))
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    data_type = getattr(torch, data_type)
    model = torch.nn.LSTM(hidden, hidden).to(device, data_type).eval()
    x = torch.randn(steps, batch, hidden).to(device, data_type)
    calls = []
    with torch.inference_mode():
        # In its first calls cuDNN loads its kernels, plain and under the library.
        for _ in range(5):
            model(x)
        wait()
        start = time.perf_counter()
        while (begin := time.perf_counter()) - start < float(seconds):
            model(x)
            wait()
            calls.append((begin - start, 1e3 * (time.perf_counter() - begin)))
    csv.writer(sys.stdout).writerows(calls)


main(*sys.argv[1:])
