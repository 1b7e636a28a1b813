"""Times over micro-batch sizes without a limit, as libucudnn.so measured them in place: do parts of a batch gain by
finding a layer's data in the L2 cache?

From the library's report come the timings (the least time of a micro-batch in the program's own buffers, by size and
algorithm) and the choices (the division, run as a whole against the undivided convolution).
"""

from harness.columns import aligned, number

LEGEND = f"""\
{__doc__.strip()}

ms: the undivided convolution. Below a size: the time of all micro-batches of that size, one's time times their number,
to the undivided convolution's. in place: the whole chosen division's time to the undivided convolution's."""
POLICIES = ("unset", "unlimited")
CONFIGURATIONS = [(network, "nchw", "half") for network in ("resnet50", "vgg16")]


def kernels_of(lines, configuration):
    """By convolution problem: the best time for each micro-batch size, and the last choice without a limit."""
    timed, chosen = {}, {}
    for line in lines:
        if tuple(line["configuration"][:3]) != configuration:
            continue
        if line["event"] == "timed":
            times = timed.setdefault(line["kernel"], {})
            times[line["batch"]] = min(line["time_ms"], times.get(line["batch"], float("inf")))
        elif line["event"] == "ran" and line["policy"] in POLICIES:
            chosen[line["kernel"]] = line
    return timed, chosen


def table_of(timed, chosen):
    """Sizes, and rows: problem, batch, milliseconds undivided, the ratio of all micro-batches' time to that by size,
    the choice, and its ratio in place."""
    sizes = sorted({size for times in timed.values() for size in times}, reverse=True)
    rows = []
    for kernel, times in timed.items():
        batch = max(times)
        choice = chosen.get(kernel, {})
        if parts := choice.get("parts"):
            batch = sum(part["count"] * part["batch"] for part in parts)
        whole = times.get(batch)
        if whole is None:
            continue
        ratios = [times[size] * batch / size / whole if size in times else None for size in sizes]
        undivided = choice.get("undivided_ms")
        in_place = choice["time_ms"] / undivided if undivided else None
        rows.append((kernel, batch, whole, ratios, choice.get("division", "–"), in_place))
    # The largest gain first: milliseconds a call, from the whole divisions that ran.
    rows.sort(key=lambda row: row[2] * ((row[5] or 1.0) - 1.0))
    return sizes, rows


def text(lines):
    out = [LEGEND]
    for configuration in CONFIGURATIONS:
        sizes, rows = table_of(*kernels_of(lines, configuration))
        if not rows:
            continue
        table = [["kernel", "ms", *map(str, sizes), "in place", "chosen"]]
        for kernel, _, whole, ratios, division, in_place in rows:
            values = [number(value, ".2f") for value in ratios]
            table.append([kernel, f"{whole:.3f}", *values, number(in_place, ".3f"), division])
        gains = [whole * (1 - in_place) for *_, whole, _, _, in_place in rows if in_place and in_place < 1]
        all_of_them = sum(whole for _, _, whole, *_ in rows)
        title = f"{', '.join(configuration)}: {len(rows)} kernels, {len(gains)} chosen faster than undivided; "
        title += f"those save {sum(gains):.3f} of {all_of_them:.3f} ms (each kernel once)"
        out += ["", title, *aligned(table)]
    return "\n".join(out) + "\n"
