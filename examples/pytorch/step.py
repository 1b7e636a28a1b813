"""Measures steps of training, or of inference, of one network in one process, and prints a JSON line for each mode.

    python step.py --network resnet50 --precision half --modes eager,graphs
    LD_PRELOAD=libucudnn.so UCUDNN_WORKSPACE_LIMIT=64MiB python step.py --network resnet50 --precision half

Of libucudnn.so it knows one thing: steps may change as long as UCUDNN_REPORT grows.
"""

import argparse
import gc
import itertools
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

import finds_harness  # noqa: F401
import branches
from cells import MODES
from device import Cpu, Cuda, Watch
from harness import arguments, calls, turns
from harness.arguments import count, some_of
from networks import NETWORKS, settle
from training import Inference, Training, add_arguments, reference
from warming import warm_up

# Operators whose own kernels are convolutions. A convolution's other work (copies into another layout, sums for a bias)
# has its own operators.
CONVOLUTIONS = {f"aten::{name}" for name in (
    "cudnn_convolution", "cudnn_convolution_transpose", "cudnn_convolution_relu", "cudnn_convolution_add_relu",
    "convolution_backward", "_conv_depthwise2d", "conv_depthwise3d", "mkldnn_convolution", "_slow_conv2d_forward", "slow_conv_transpose2d",
)}  # fmt: skip
PROFILED = 3
# When a process may wait for its turn: before anything ran, with cuDNN loaded, or after the first step.
TURNS = ("begun", "loaded", "stepped")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", required=True, choices=NETWORKS)
    add_arguments(parser, "float")
    parser.add_argument("--tiny", action="store_true", help="2 images as small as the network takes, for trying out")
    parser.add_argument("--inference", action="store_true", help="steps of inference, not of training")
    parser.add_argument("--streams", action="store_true", help="branches of a network run on streams of their own")
    parser.add_argument("--benchmark", default="off", choices=["off", "on"], help="torch.backends.cudnn.benchmark")
    parser.add_argument("--modes", default=("eager",), type=some_of(MODES, "mode"),
                        help=f"some of {','.join(MODES)} [eager]")  # fmt: skip
    parser.add_argument("--least", default=20, type=count, help="steps of a warm-up at the least")
    parser.add_argument("--most", default=400, type=count, help="… and at the most")
    parser.add_argument(
        "--warm-up-seconds", default=30.0, type=float, help="seconds after which a warm-up ends in any case"
    )
    parser.add_argument("--seconds", default=1.0, type=float, help="how long steps are timed")
    parser.add_argument("--reference", type=pathlib.Path, help="gradients in float64, to compare with")
    parser.add_argument(
        "--write-reference", action="store_true", help="write those to --reference, and measure nothing"
    )
    parser.add_argument("--times-alone", action="store_true", help="no workspace, and no time of convolutions alone")
    parser.add_argument("--turn", choices=TURNS, help="say on standard output when so much is done, and go on at a line "
                        "of standard input; the device's memory in use is then left out")  # fmt: skip
    arguments.add(parser, "device")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU; --device cpu tries the script without one")
    if options.device == "cpu" and "graphs" in options.modes:
        parser.error("--modes graphs: CUDA graphs need --device cuda")
    if options.write_reference and not options.reference:
        parser.error("--write-reference needs --reference FILE")
    if options.inference and options.reference:
        parser.error("--inference has no gradients to compare with --reference")
    settle(parser, options, options.tiny)
    return options


def timed(step, device, options):
    """Times of single steps, in milliseconds, over about `--seconds`."""
    guess = statistics.median(device.times(step, 2))
    times = device.times(step, max(2, min(10, options.least), min(300, int(1e3 * options.seconds / guess))))
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return {"step_ms": statistics.median(times), "p10_ms": tenths[0], "p90_ms": tenths[8], "steps": len(times)}


def convolution_time(step, device, cuda):
    """Milliseconds a step of the convolutions' kernels, by PyTorch's profiler.

    Events around the calls would also count gaps in which the device waits for the host. Replaying the convolutions
    alone would find other data in the cache.
    """
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])
    with profile(activities=activities) as seen:
        for _ in range(PROFILED):
            step()
        device.wait()
    own = "self_device_time_total" if cuda else "self_cpu_time_total"
    return sum(getattr(e, own) for e in seen.key_averages() if e.key in CONVOLUTIONS) / 1e3 / PROFILED


def largest_workspace(step, device):
    """Bytes of the largest block that a step allocates and then frees with no other allocation between, as PyTorch does
    for a convolution's workspace."""
    record = torch.cuda.memory._record_memory_history
    trace_now = lambda: torch.cuda.memory._snapshot()["device_traces"][device.index]  # noqa: E731
    record(enabled="all", context=None)
    before = len(trace_now())
    step()
    device.wait()
    trace = trace_now()[before:]
    record(enabled=None)
    passing = [a["size"] for a, b in itertools.pairwise(trace)
               if (a["action"], b["action"]) == ("alloc", "free_requested") and a["addr"] == b["addr"]]  # fmt: skip
    return max(passing, default=0)


def captured(training, device):
    """A CUDA graph of a whole step."""

    def ready():
        device.wait()
        training.optimizer.zero_grad(set_to_none=True)
        device.release()

    return calls.captured(training, ready=ready)[0]


def load(options):
    """Runs a small convolution: then cuDNN is loaded."""
    x = torch.ones(2, 8, 8, 8, device=options.device, dtype=torch.half if options.device == "cuda" else None)
    torch.nn.Conv2d(8, 8, 3, device=x.device, dtype=x.dtype)(x).sum().backward()


def wait_at(place, options, device):
    """Waits for this process's turn, if that is here. Processes that wait leave the memory to others."""
    if options.turn == place:
        device.wait()
        device.release()
        next(turns.asked())


def measure(mode, training, device, options):
    cuda = options.device == "cuda"
    found = {"mode": mode}
    gc.collect()
    device.release()
    found["device_before"] = device.used() if device.used else None
    begin = time.monotonic()
    with Watch(device) as all_along:
        if mode == "graphs":
            warm_up(training, device, options)
            step = captured(training, device).replay
        else:
            if mode == "compile":
                training.compile()
            step = training
        step()
        device.wait()
        found["first_s"] = time.monotonic() - begin
        wait_at("stepped", options, device)
        found["warm_up_steps"], found["settled"] = warm_up(step, device, options)
    found["device_peak"] = all_along.peak
    found |= timed(step, device, options)
    device.release()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    with Watch(device) as settled:
        for _ in range(3):
            step()
    found["device_settled"] = settled.peak
    found["torch_peak"] = torch.cuda.max_memory_allocated() if cuda else None
    eager = mode != "graphs"
    if not options.times_alone:
        found["workspace"] = largest_workspace(step, device) if cuda and eager else None
        found["convolution_ms"] = convolution_time(step, device, cuda) if eager else None
    exact = options.reference and options.reference.exists()
    found["errors"] = training.errors(step, torch.load(options.reference)) if exact else None
    return found


def main():
    options = parse_arguments()
    network = NETWORKS[options.network]
    calls.allow_tf32(options.precision == "tf32")
    torch.backends.cudnn.benchmark = options.benchmark == "on"
    if options.write_reference:
        torch.save(reference(network, options.batch, options.size, options.device), options.reference)
        return
    device = Cuda() if options.device == "cuda" else Cpu()
    if options.turn:
        # The memory in use is that of all processes, and a process that waits must not look at it all the time.
        device.used = None
    same = {name: getattr(options, name) for name in ("network", "batch", "size", "layout", "precision", "benchmark")}
    same |= device.facts() | {"torch": torch.__version__}
    kind = Inference if options.inference else Training
    training = kind(network, options.batch, options.size, options.layout, options.precision, options.device)
    if options.streams and not branches.spread(training.model, branches.streams(options.device)):
        sys.exit(f"step.py: --streams: {options.network} has no branches; inception_v3 has some")
    if options.turn == "loaded":
        load(options)
    for place in ("begun", "loaded"):
        wait_at(place, options, device)
    for mode in options.modes:
        print(json.dumps(same | measure(mode, training, device, options)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
