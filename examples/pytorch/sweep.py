"""Times of random convolutions from the ranges of real networks.

    python sweep.py --count 300
    LD_PRELOAD=libucudnn.so UCUDNN_REPORT=report.jsonl python sweep.py --count 300 --calls 400

A line of JSON for each convolution and direction (F, its input's gradient BD, its filter's BF): the milliseconds of the
first call, of the longest of the first ones, each waited for, their median and their sum; the median on the device alone; the bytes
of the three tensors; the operations. Calls go on until the library, if it is loaded, has stopped trying others. They are
queued behind other work then, as in a training step, so that the library's trials see the device alone, too.
"""

import argparse
import json
import math
import random
import statistics
import sys
import time

import torch

import finds_harness  # noqa: F401
from harness import arguments, calls
from single import Single
from warming import Report

# The first calls of a convolution, which are waited for, one by one.
WAITED = 12
# The most elements of a tensor, and the most multiply-adds of a call.
MOST_ELEMENTS, MOST_WORK = 1 << 26, 1 << 37
TYPES = {"half": 4, "bfloat16": 3, "tf32": 2, "float": 2}
CHANNELS = (16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 240, 256, 320, 384, 480, 512, 640, 768, 960, 1024, 1280, 2048)
SIDES = {1: (256, 1000, 1024, 4096, 8000, 16384), 2: (7, 8, 14, 16, 28, 32, 56, 64, 96, 112, 128, 224, 256, 512),
         3: (4, 8, 14, 16, 28, 32, 56, 64, 96, 112, 128)}  # fmt: skip
BATCHES = {1: (4, 8, 16, 32, 64), 2: (1, 2, 4, 8, 16, 32, 64, 96, 128), 3: (1, 2, 4, 8)}


def drawn(seed, number, work=MOST_WORK):
    """Convolution `number` of a seed with at most so many multiply-adds, as the arguments of `Single`."""
    r = random.Random(f"{seed} {number}")
    axes = r.choices((1, 2, 3), (1, 4, 3))[0]
    kind = r.choices(list(TYPES), list(TYPES.values()))[0]
    while True:
        convolution = {1: of_sequences, 2: of_images, 3: of_volumes}[axes](r)
        images, sides = r.choice(BATCHES[axes]), [r.choice(SIDES[axes])] * axes
        if axes == 3 and r.random() < 0.3:
            sides[0] = r.choice((4, 8, 16, 32))
        convolution |= {"x": [images, convolution.pop("inputs"), *sides], "kind": kind}
        if is_usual(convolution, work):
            return convolution


def of_sequences(r):
    """WaveNet's and temporal networks' dilated filters, encoders of speech and sound, a Conformer's depthwise filters."""
    channels = r.choice(CHANNELS[5:])
    way = r.choices(("dilated", "strided", "same", "depthwise"), (3, 2, 3, 2))[0]
    if way == "strided":
        stride = r.choice((2, 4, 5, 8))
        return made(channels, r.choice((channels, 2 * channels)), [2 * stride], [stride], stride // 2)
    filter = r.choice((7, 15, 31)) if way == "depthwise" else r.choice((1, 3, 5, 7))
    dilation = r.choice((2, 4, 8, 16, 64)) if way == "dilated" else 1
    outputs = channels if way == "depthwise" else r.choice((channels, 2 * channels))
    return made(channels, outputs, [filter], [1], None, dilation, channels if way == "depthwise" else 1)


def of_images(r):
    """Layers of classifying, detecting and segmenting networks, and of diffusion's."""
    way = r.choices(("same", "strided", "pointwise", "dilated", "grouped", "depthwise", "line", "stem", "patches"),
                    (6, 3, 4, 2, 3, 2, 2, 1, 2))[0]  # fmt: skip
    inputs, outputs = r.choice(CHANNELS), r.choice(CHANNELS)
    if way == "stem":
        return made(r.choice((1, 3, 4)), r.choice((16, 32, 64, 96, 128)), *r.choice((([3, 3], [1, 1]), ([3, 3], [2, 2]), ([7, 7], [2, 2]))))
    if way == "patches":
        side = r.choice((2, 4, 14, 16))
        return made(inputs if side == 2 else 3, r.choice((96, 128, 384, 768, 1024, 1152)), [side] * 2, [side] * 2, 0)
    if way == "pointwise":
        return made(inputs, outputs, [1, 1], [r.choice((1, 1, 1, 2))] * 2)
    if way == "depthwise":
        return made(inputs, inputs, [r.choice((3, 3, 5, 7))] * 2, [r.choice((1, 1, 2))] * 2, None, 1, inputs)
    if way == "grouped":
        groups, each = r.choice(((32, 4), (32, 8), (32, 16), (32, 32), (8, 8), (16, 24), (2, 64), (2, 192)))
        return made(groups * each, groups * each, [3, 3], [r.choice((1, 1, 2))] * 2, None, 1, groups)
    if way == "line":
        length = r.choice((3, 5, 7))
        return made(inputs, outputs, r.choice(([1, length], [length, 1])), [1, 1])
    if way == "dilated":
        return made(inputs, outputs, [3, 3], [1, 1], None, r.choice((2, 4, 6, 12, 18)))
    return made(inputs, outputs, [r.choice((3, 3, 3, 5))] * 2, [2 if way == "strided" else 1] * 2)


def of_volumes(r):
    """Layers of segmenting networks for volumes, of networks for clips, and of clips' diffusion."""
    way = r.choices(("same", "strided", "pointwise", "slices", "times", "stem", "patches", "grouped", "dilated"),
                    (6, 3, 2, 2, 2, 1, 1, 1, 1))[0]  # fmt: skip
    inputs, outputs = r.choice(CHANNELS[:16]), r.choice(CHANNELS[:16])
    if way == "stem":
        return made(r.choice((1, 2, 3, 4)), r.choice((16, 32, 64)), *r.choice((([3] * 3, [1] * 3), ([3, 7, 7], [1, 2, 2]))))
    if way == "patches":
        filter = r.choice(([2, 2, 2], [2, 16, 16], [1, 2, 2]))
        return made(3 if filter[1] == 16 else inputs, outputs, filter, filter, 0)
    if way == "grouped":
        return made(inputs, inputs, [3] * 3, [1] * 3, None, 1, r.choice((inputs, inputs // 8)))
    filter = {"pointwise": [1] * 3, "slices": [1, 3, 3], "times": [3, 1, 1]}.get(way, [3] * 3)
    return made(inputs, outputs, filter, [2 if way == "strided" else 1] * 3, None, 2 if way == "dilated" else 1)


def made(inputs, outputs, filter, stride, padding=None, dilation=1, groups=1):
    """A convolution; one without a padding keeps the image's size, but for strides."""
    if padding is None:
        padding = [dilation * (length // 2) for length in filter]
    return {"inputs": inputs, "outputs": outputs, "filter": filter, "stride": stride, "padding": padding,
            "dilation": dilation, "groups": groups}  # fmt: skip


def is_usual(convolution, work):
    """Whether a network would have it: its filter is within the padded image, and its sizes are bounded."""
    axes = range(len(convolution["filter"]))
    padding = convolution["padding"]
    padding = padding if isinstance(padding, list) else [padding] * len(axes)
    sides = [convolution["x"][2 + axis] + 2 * padding[axis] - convolution["dilation"] * (convolution["filter"][axis] - 1) - 1
             for axis in axes]  # fmt: skip
    if min(sides) < 0:
        return False
    pixels = convolution["x"][0] * math.prod(side // stride + 1 for side, stride in zip(sides, convolution["stride"], strict=True))
    each = convolution["x"][1] // convolution["groups"] * math.prod(convolution["filter"])
    elements = max(math.prod(convolution["x"]), convolution["outputs"] * max(pixels, each))
    return elements <= MOST_ELEMENTS and convolution["outputs"] * pixels * each <= work


def name(convolution):
    """As in "32x64x56x56 * 128x3x3 /2x2 p1 d2 g8 half"."""
    by = lambda sizes: "x".join(map(str, sizes)) if isinstance(sizes, list) else str(sizes)  # noqa: E731
    words = [by(convolution["x"]), "*", by([convolution["outputs"], *convolution["filter"]]), "/" + by(convolution["stride"]),
             "p" + by(convolution["padding"])]  # fmt: skip
    words += [f"{letter}{convolution[what]}" for letter, what in (("d", "dilation"), ("g", "groups")) if convolution[what] > 1]
    return " ".join([*words, convolution["kind"]])


def measured(convolution, options, report):
    """The lines of a convolution."""
    single = Single(**convolution, device=options.device)
    wait = calls.waiting(options.device)
    wait()
    runs, times = single.runs(), {}
    begin = time.monotonic()
    changed = done = 0
    while done < 2 or (done < options.calls and time.monotonic() - begin < options.seconds):
        if done >= WAITED:
            calls.keep_busy(options.device, 0.5)
        for way, run in runs.items():
            before = time.perf_counter()
            run()
            if done < WAITED:
                wait()
                times.setdefault(way, []).append(1e3 * (time.perf_counter() - before))
        wait()
        done += 1
        if done % 10 == 0:
            changed = done if report.grows() else changed
            if done - changed >= (120 if report.exploring else 20):
                break
    report.grows()
    settled, report.exploring = not report.exploring, type(report.exploring)()
    pixels = single.dy.numel() // convolution["outputs"]
    tensors = (single.x, single.w, single.dy)
    same = {"convolution": name(convolution), "bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors),
            "operations": 2 * pixels * single.w.numel(), "calls": done, "settled": settled}  # fmt: skip
    for way, run in runs.items():
        yield same | {"way": way} | of_waited(times[way]) | {"ms": calls.on_device(run, options.device, options.timed)}


def of_waited(times):
    """What a line says of the milliseconds of the calls that were waited for."""
    return {"first": times[0], "longest": max(times), "usual": statistics.median(times), "sum": sum(times)}


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the convolutions [1]")
    parser.add_argument("--count", type=arguments.count, default=300, help="convolutions [300]")
    parser.add_argument("--work", type=arguments.count, default=MOST_WORK, help="the most multiply-adds of a call [2^37]")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one [0]")
    parser.add_argument("--every", type=arguments.count, default=1, help="only each so manyth [1]")
    parser.add_argument("--asked", action="store_true", help="those whose numbers come on standard input")
    parser.add_argument("--calls", type=arguments.count, default=3, help="the most of each direction before it is timed [3]")
    parser.add_argument("--seconds", type=arguments.above_zero, default=3.0, help="the most for these calls [3]")
    parser.add_argument("--timed", type=arguments.count, default=7, help="looks at each direction, of up to ten calls [7]")
    arguments.add(parser, "device")
    options = parser.parse_args(words)
    report = Report()
    for number in map(int, sys.stdin) if options.asked else range(options.first, options.count, options.every):
        convolution = drawn(options.seed, number, options.work)
        try:
            for line in measured(convolution, options, report):
                print(json.dumps({"number": number} | line), flush=True)
        except torch.OutOfMemoryError as error:
            print(json.dumps({"number": number, "failed": str(error).splitlines()[0]}), flush=True)
        if options.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
