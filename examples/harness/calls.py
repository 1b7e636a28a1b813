"""Calls on a device, by PyTorch: their times, CUDA graphs of them, and the errors of their results."""

import math
import time

import torch
import torch.distributed

TYPES = {"float": torch.float32, "tf32": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16}


def allow_tf32(is_allowed):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_allowed


def waiting(device):
    """A function that waits until the device has done all that was launched."""
    return torch.cuda.synchronize if device == "cuda" else lambda: None


def timed(call, device, count):
    """The median of so many calls, in milliseconds; each is waited for."""
    times = []
    for _ in range(count):
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        else:
            begin = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - begin))
    return sorted(times)[count // 2]


def keep_busy(device, milliseconds):
    """Queues work that takes a GPU about so long, so that what comes behind it does not wait for the host."""
    if device == "cuda":
        torch.cuda._sleep(int(2e6 * milliseconds))


def on_device(call, device, count, most=10):
    """The median time of a call on the device, in milliseconds, over so many looks. What the host does is hidden: before a
    look, the device sleeps until the look's calls are queued. A look has up to `most` calls, fewer of long ones."""
    if device != "cuda":
        return timed(call, device, count)
    each = timed(call, device, 3)
    calls = max(1, min(most, round(2 / each)))
    times = []
    for _ in range(count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # A call takes the host less than 0.2 ms.
        keep_busy(device, 0.2 * (1 + calls))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return sorted(times)[count // 2]


def captured(call, warm_up=3, ready=lambda: None, waits=False):
    """A CUDA graph of a call, and what the call returned. Before it come some calls on another stream, each of which is
    waited for if `waits`, and ready()."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm_up):
            call()
            if waits:
                side.synchronize()
    torch.cuda.current_stream().wait_stream(side)
    ready()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph, result


def is_alike(tensor):
    """Whether all ranks of torch.distributed have a tensor with the same numbers."""
    theirs = [torch.empty_like(tensor) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(theirs, tensor)
    return all(torch.equal(other, tensor) for other in theirs)


def error(found, exact):
    """||found - exact|| / ||exact||, in double precision."""
    exact = exact.detach().double()
    off = (found.detach().double().to(exact.device) - exact).norm()
    return (off / exact.norm().clamp_min(1e-30)).item()


def worst(found, exact):
    """The largest error of several tensors."""
    return largest(error(one, other) for one, other in zip(found, exact, strict=True))


def largest(errors):
    """The largest of several errors. NaN is the worst of all, which max() may pass over."""
    return max(errors, key=lambda error: math.inf if math.isnan(error) else error)
