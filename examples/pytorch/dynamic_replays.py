"""The device's time of replays of captured training steps (dynamic_steps.py), and of each kernel in one.

    LD_PRELOAD=libucudnn.so python dynamic_replays.py --device cuda --batches 1,256 --type bfloat16

A line for each batch size has the median, the least and the most time of replays of different batches. Below it are the
kernels of a replay by PyTorch's profiler, those that take longest first: how often each comes, and its time.
"""

import collections
import json
import statistics
import sys

import torch
from torch.profiler import ProfilerActivity, profile

import dynamic_nets
import timing
from dynamic_steps import CapturedCall, Steps

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
    """By kernel: how often a replay has it, and the microseconds of one."""
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


def main():
    parser = dynamic_nets.arguments(__doc__)
    options = parser.parse_args()
    if options.device != "cuda" or not torch.cuda.is_available():
        parser.error("it takes --device cuda and a GPU: there are no CUDA graphs elsewhere")
    torch.manual_seed(dynamic_nets.SEED)
    dtype, _, _ = timing.TYPES[options.type]
    net = Steps(20_000, options.device)
    model = net.model(options.hidden).to(options.device, dtype)
    print(f"replays of {net.timed}, PyTorch {torch.__version__}; H = {options.hidden}, {options.type}; µs")
    rows = []
    for count in options.batches or BATCHES:
        call = CapturedCall(net.graphs, "captured")
        id_lists = call.batches(timing.sampled(count, options.rounds, net.graphs))
        inputs = [net.inputs(ids, options) for ids in id_lists]
        call.warm(model, id_lists[0], *inputs[0])
        times, kernels = replay_times(call, id_lists, inputs), kernel_times(call)
        rows.append({"batch": count, "us": times, "kernels": kernels})
        print(f"batch {count:3}: {statistics.median(times):.0f} ({min(times):.0f} to {max(times):.0f}), "
              f"{sum(often for often, _ in kernels.values()):.0f} kernels", flush=True)  # fmt: skip
        for name, (often, time) in kernels.items():
            print(f"    {often:5.1f} x {time:7.1f}  {name[:80]}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"hidden": options.hidden, "type": options.type, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
