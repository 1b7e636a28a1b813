"""first_steps.py NETWORK STEPS half|float cuda|cpu: trains from a process's first step on, and prints each step's
milliseconds, then the most bytes of the device that were in use."""

import sys
import time

import torch

import finds_harness  # noqa: F401
from networks import NETWORKS
from training import Training


def main(network, steps, precision, device):
    network = NETWORKS[network]
    tiny = {} if device == "cuda" else {"batch": 2, "size": 64}
    batch, size = tiny.get("batch", network.batch), tiny.get("size", network.size)
    training = Training(network, batch, size, "nchw", precision if device == "cuda" else "float", device)
    most = 0
    for _ in range(int(steps)):
        begin = time.perf_counter()
        training()
        if device == "cuda":
            torch.cuda.synchronize()
            free, total = torch.cuda.mem_get_info()
            most = max(most, total - free)
        print(1e3 * (time.perf_counter() - begin))
    print(most)


main(*sys.argv[1:])
