"""The device's time of replays of captured training steps (dynamic_steps.py), and of each kernel in one.

    LD_PRELOAD=libucudnn.so python dynamic_replays.py --device cuda --batches 1,256 --type bfloat16

A line for each batch size has the median, the least and the most time of replays of different batches. Below it are the
kernels and copies of a replay by PyTorch's profiler, those that take longest first: how often each comes, and its time.
"""

import argparse
import collections
import json
import statistics
import sys

import torch
from torch.profiler import ProfilerActivity, profile

import dynamic_nets
import timing
from dynamic_nets import at_least, several
from dynamic_steps import CapturedCall, Steps
from harness import calls

BATCHES, WARM_UPS, PROFILED = (1, 8, 32, 128, 256), 3, 10


def replay_times(call, id_lists, inputs):
    """Microseconds of a replay of each batch."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for ids, its in zip(id_lists, inputs, strict=True):
        call.load(ids, *its)
        for _ in range(WARM_UPS):
            call.recorded.replay()
        begin.record()
        call.recorded.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return times


def kernel_times(call):
    """By kernel, and copies: how often a replay has it, and the microseconds of one."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(PROFILED):
            call.recorded.replay()
        torch.cuda.synchronize()
    found = collections.defaultdict(list)
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found[event.name].append(event.time_range.elapsed_us())
    times = {name: (len(its) / PROFILED, statistics.mean(its)) for name, its in found.items()}
    return dict(sorted(times.items(), key=lambda item: -item[1][0] * item[1][1]))


def parse_arguments(graphs):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cuda"], help="[cuda]")
    parser.add_argument("--type", default="float", choices=timing.TYPES, help="of numbers [float]")
    parser.add_argument("--hidden", type=at_least(1), default=256, help="the width of inputs and states [256]")
    parser.add_argument("--batches", type=several(at_least(1)), default=BATCHES, help=f"numbers of trees {list(BATCHES)}")
    parser.add_argument("--rounds", type=at_least(3), default=10, help="batches of each size [10]")
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU, and elsewhere there are no CUDA graphs")
    if max(options.batches) > graphs:
        parser.error(f"--batches: there are {graphs} trees; 1 to {graphs} are accepted")
    return options


def main():
    net = Steps(20_000, "cuda")
    options = parse_arguments(len(net.graphs))
    torch.manual_seed(dynamic_nets.SEED)
    dtype, allows_tf32, _ = timing.TYPES[options.type]
    calls.allow_tf32(allows_tf32)
    model = net.model(options.hidden).to(options.device, dtype)
    print(f"replays of {net.timed}, PyTorch {torch.__version__}; H = {options.hidden}, {options.type}; µs")
    rows = []
    for count in options.batches:
        call = CapturedCall(net.graphs, "captured")
        id_lists = call.batches(timing.sampled(count, options.rounds, net.graphs))
        inputs = [net.inputs(ids, options) for ids in id_lists]
        call.warm(model, id_lists[0], *inputs[0])
        times, kernels = replay_times(call, id_lists, inputs), kernel_times(call)
        rows.append({"batch": count, "us": times, "kernels": kernels})
        print(f"batch {count:3}: {statistics.median(times):.0f} ({min(times):.0f} to {max(times):.0f}), "
              f"{sum(often for often, _ in kernels.values()):.0f} kernels and copies", flush=True)  # fmt: skip
        for name, (often, time) in kernels.items():
            print(f"    {often:5.1f} x {time:7.1f}  {name[:80]}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"hidden": options.hidden, "type": options.type, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
