"""Times of 3-D convolutions as in nnU-Net's network, by filters of 3×3×3 that keep the size.

    python volumes.py --benchmark on --layout channels_last
    LD_PRELOAD=libucudnn.so python volumes.py --calls 100

A line for each layer: milliseconds of the convolution (F), its input's gradient (BD) and its filter's (BF) after some
calls of each, with the rate in TFLOP/s; the least time by bytes (each tensor once) and by operations at 700 TFLOP/s; and
the three errors, ||found - exact|| / ||exact||, where PyTorch's own kernels in double precision are the exact ones.
`--benchmark on` lets PyTorch try all of cuDNN's engines, with any workspace.
"""

import argparse

import torch

import finds_harness  # noqa: F401
from harness import arguments, calls
from single import Single

# Images, channels of the input and of the output, and the volume's side.
LAYERS = (
    *((2, 32, 32, 128), (2, 64, 32, 128), (2, 64, 64, 64), (2, 128, 64, 64), (2, 128, 128, 32)),
    *((2, 256, 128, 32), (2, 256, 256, 16), (2, 512, 256, 16), (2, 320, 320, 8), (2, 320, 320, 4)),
)
LAYOUTS = {"nchw": torch.contiguous_format, "channels_last": torch.channels_last_3d}
# The bounds of an H100: bytes a second of its memory, and operations a second that its tensor cores sustain.
BYTES, OPERATIONS = 3.35e12, 700e12


def errors(single):
    """The error of each direction."""
    exact = Single.__new__(Single)
    exact.__dict__ |= {name: value.double() if isinstance(value, torch.Tensor) else value
                       for name, value in single.__dict__.items()}  # fmt: skip
    with torch.backends.cudnn.flags(enabled=False):
        expected = {way: run() for way, run in exact.runs().items()}
    return {way: calls.error(run(), expected[way]) for way, run in single.runs().items()}


def measured(layer, kind, options):
    """The line of a layer."""
    images, inputs, outputs, side = layer
    side = options.side or side
    single = Single((images, inputs, *[side] * 3), outputs, (3,) * 3, 1, 1, kind, options.device, LAYOUTS[options.layout])
    runs = single.runs()
    wait = calls.waiting(options.device)
    for _ in range(options.calls):
        for run in runs.values():
            run()
    wait()
    operations = 2 * 27 * images * inputs * outputs * side**3
    elements = sum(tensor.numel() * tensor.element_size() for tensor in (single.x, single.w, single.dy))
    line = f"{inputs:4} -> {outputs:4} at {side:3}³ {kind:8}"
    for way, run in runs.items():
        time = calls.timed(run, options.device, options.timed)
        line += f"  {way} {time:7.3f} ms {operations / time / 1e9:5.0f}"
    line += f"  bounds {1e3 * elements / BYTES:6.3f} {1e3 * operations / OPERATIONS:6.3f}"
    if options.errors:
        line += "  errors " + " ".join(f"{error:.1e}" for error in errors(single).values())
    return line


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ",".join(calls.TYPES)
    parser.add_argument("--types", default=("half",), type=arguments.some_of(calls.TYPES, "name"), help=f"some of {names}")
    parser.add_argument("--layout", default="nchw", choices=LAYOUTS)
    parser.add_argument("--benchmark", default="off", choices=["off", "on"], help="torch.backends.cudnn.benchmark")
    parser.add_argument("--calls", default=3, type=arguments.count, help="of each direction before it is timed [3]")
    parser.add_argument("--timed", default=15, type=arguments.count, help="calls that are timed [15]")
    parser.add_argument("--layers", default=len(LAYERS), type=arguments.count, help="the first so many [all]")
    parser.add_argument("--side", type=arguments.count, help="of all volumes [each layer's own]")
    parser.add_argument("--errors", action="store_true", help="compare with double precision")
    arguments.add(parser, "device")
    options = parser.parse_args(words)
    torch.backends.cudnn.benchmark = options.benchmark == "on"
    for layer in LAYERS[: options.layers]:
        for kind in options.types:
            print(measured(layer, kind, options), flush=True)


if __name__ == "__main__":
    main()
