"""What canonical GRU takes by the direct call of ucudnn.h, by how its blocks exchange: on this machine's GPU, timed by the
library itself when a network is made.

    python scripts/gpu_canonical_gru.py --library target/release/libucudnn.so [--type half] [--hidden 64 160 256] [--batch 1 10]

A line a network: microseconds a time step of the fastest of each kind among the model's best, and how much slower the
model's first choice is than the fastest of all. `block` does not exchange, `grid` does twice a step, `grid-single` once;
`step` is one product a step. Constants of the model that the two ways differ in: l2_latency and packet (src/rnn/model.rs).

--cudnn libhostdnn.so tries the script where there is no GPU.
"""

import argparse
import ctypes
import os
import pathlib
import subprocess
import sys

KINDS = ("block", "grid", "grid-single", "step")
TYPES = {"float": 0, "half": 2, "bfloat16": 9}
CANONICAL_GRU = 16
TOLD = "microseconds a step: "


class Description(ctypes.Structure):
    """ucudnnRnnDescription_t."""

    _fields_ = [(name, ctypes.c_int) for name in (
        "cell", "dataType", "allowTf32", "hasBiases", "inputSize", "hiddenSize", "layers", "directions", "maxBatch", "maxSteps",
    )] + [("configuration", ctypes.c_char_p)]  # fmt: skip


def child(library, data_type, hidden, batch, steps):
    """Makes a network, of which the log tells what was timed."""
    library = ctypes.CDLL(library)
    description = Description(CANONICAL_GRU, TYPES[data_type], 0, 1, hidden, hidden, 1, 1, batch, steps, None)
    rnn = ctypes.c_void_p()
    if library.ucudnnCreateRnn(ctypes.byref(rnn), ctypes.byref(description)) != 0:
        why = ctypes.create_string_buffer(1024)
        library.ucudnnGetRnnErrorString(why, ctypes.c_size_t(len(why)))
        sys.exit(why.value.decode())
    library.ucudnnDestroyRnn(rnn)


def timed(options, hidden, batch):
    """Configurations, the model's first choice first, each with its microseconds a step."""
    variables = {"UCUDNN_LOG": "info", "UCUDNN_DATABASE": "off", "UCUDNN_RNN_TOP_K": str(options.candidates)}
    if options.cudnn:
        variables["UCUDNN_CUDNN_LIBRARY"] = str(options.cudnn.resolve())
    network = [str(options.library.resolve()), options.type, str(hidden), str(batch), str(options.steps)]
    command = [sys.executable, "-B", __file__, "--child", *network]
    ended = subprocess.run(command, env=dict(os.environ) | variables, stderr=subprocess.PIPE, text=True)
    told = [line.split(TOLD, 1)[1] for line in ended.stderr.splitlines() if TOLD in line]
    if ended.returncode or not told:
        sys.exit(f"H {hidden}, batch {batch}: {ended.stderr.strip() or 'nothing was timed'}")
    pairs = (one.rsplit(": ", 1) for one in told[0].split(", "))
    return [(name, float(time)) for name, time in pairs if time != "none"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, required=True, help="libucudnn.so")
    parser.add_argument("--cudnn", type=pathlib.Path, help="a cuDNN that is not where the loader looks, or hostdnn")
    parser.add_argument("--type", choices=TYPES, default="float")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 128, 160, 192, 256, 512, 1024])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=24, help="how many of the model's best are timed")
    options = parser.parse_args()
    print(f"canonical GRU, {options.type}, {options.steps} steps at most\n    H  batch" +
          "".join(f"{kind:>13}" for kind in KINDS) + "  first/best  best")  # fmt: skip
    for hidden in options.hidden:
        for batch in options.batch:
            times = timed(options, hidden, batch)
            of = {kind: [time for name, time in times if name.split(" ")[0] == kind] for kind in KINDS}
            row = "".join(f"{min(of[kind]):13.3f}" if of[kind] else f"{'-':>13}" for kind in KINDS)
            name, best = min(times, key=lambda pair: pair[1])
            print(f"{hidden:5}  {batch:5}{row}  {times[0][1] / best:10.3f}  {name}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:4], *map(int, sys.argv[4:]))
    else:
        main()
