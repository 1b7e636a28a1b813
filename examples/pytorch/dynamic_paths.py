"""The device's time of replays of captured training steps (dynamic_steps.py) by each executor of the path, and the numbers of
the model that chooses one (crates/dynamic/src/batched/choice.rs), fitted to them.

    LD_PRELOAD=libucudnn.so python dynamic_paths.py --json paths.json
    python dynamic_paths.py --fit paths.json

A process for each executor captures all steps beside the others. Then they replay one after the other: a line for each
width, type and number of trees has the median µs by launches for each level and by groups of blocks.

The fit takes the differences between executors alone: what else is in a step is the same for all. It prints the numbers,
and by how much the choice is slower than the fastest executor, with the numbers of today and with those.
"""

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
import threading

import torch

import timing
from dynamic_nets import SEED, at_least
from dynamic_replays import replay_times
from dynamic_steps import CapturedCall, Steps
from harness import calls

EXECUTORS = {"batched": 0, "persistent": 1, "persistent:2": 2, "persistent:4": 4, "persistent:8": 8}
TYPES = ("float", "TF32", "bfloat16")
# The numbers of trees by the width.
CELLS = {256: (1, 2, 4, 8, 16, 32, 64, 128, 256), 512: (1, 8, 32, 128)}
WORDS = 1000
SECONDS = 120


def prepared(net, device, cells, rounds):
    """Each cell with its captured step."""
    made = []
    for hidden, counts in cells.items():
        for kind in TYPES:
            dtype, allows_tf32, _ = timing.TYPES[kind]
            calls.allow_tf32(allows_tf32)
            torch.manual_seed(SEED)
            model = net.model(hidden).to(device, dtype)
            options = argparse.Namespace(device=device, type=kind, hidden=hidden)
            for count in counts:
                call = CapturedCall(net.graphs, "captured")
                id_lists = call.batches(timing.sampled(count, rounds, net.graphs))
                inputs = [net.inputs(ids, options) for ids in id_lists]
                call.warm(model, id_lists[0], *inputs[0])
                made.append(({"hidden": hidden, "type": kind, "batch": count}, call, id_lists, inputs))
    return made


def features(net, heights, ids):
    """What the model reads of a batch: its levels above the leaves, and their rows."""
    firsts, counts = net.structures.first[:-1][ids], net.structures.counts[ids]
    of_batch = torch.cat([heights[first : first + count] for first, count in zip(firsts.tolist(), counts.tolist())])
    return [int(of_batch.max()), int((of_batch > 0).sum())]


def work(executor, device, rounds, cells, barrier, turn, found):
    """A process."""
    net = Steps(WORDS, device)
    made = prepared(net, device, cells, rounds)
    barrier.wait()
    with turn:
        for cell, call, id_lists, inputs in made:
            times = replay_times(call, id_lists, inputs) if device == "cuda" else [1.0] * len(id_lists)
            found.put((executor, cell | {"us": times, "ids": id_lists}))
    found.put((executor, None))


def measure(options):
    """The cells: of each the width, the type, the number of trees, the features and the µs of each batch by executors."""
    context = multiprocessing.get_context("spawn")
    barrier, turn, found = context.Barrier(len(EXECUTORS)), context.Lock(), context.Queue()
    cells = CELLS if options.device == "cuda" else {8: (1, 2)}
    processes = []
    for executor in EXECUTORS:
        os.environ["UCUDNN_DYNAMIC"] = executor
        its = context.Process(target=work, args=(executor, options.device, options.rounds, cells, barrier, turn, found))
        its.start()
        processes.append(its)
    threading.Thread(target=watch, args=(processes, barrier), daemon=True).start()
    net = Steps(WORDS, "cpu")
    heights = net.structures.heights()
    rows, left = {}, len(processes)
    while left:
        executor, cell = found.get(timeout=SECONDS)
        if cell is None:
            left -= 1
            continue
        key = tuple(cell[name] for name in ("hidden", "type", "batch"))
        row = rows.setdefault(key, {name: cell[name] for name in ("hidden", "type", "batch")} | {"us": {}})
        row["us"][executor] = cell["us"]
        if "features" not in row:
            row["features"] = [features(net, heights, ids) for ids in cell["ids"]]
    for its in processes:
        its.join()
    return list(rows.values())


def watch(processes, barrier):
    """Ends the program if a process fails: the others would wait for it."""
    for its in processes:
        its.join()
        if its.exitcode:
            barrier.abort()
            print(f"a process ended with {its.exitcode}", file=sys.stderr, flush=True)
            os._exit(1)


def show(rows):
    print("replays, median us: batched, then groups of 1, 2, 4 and 8")
    for row in rows:
        print(f"H {row['hidden']}, {row['type']}, {row['batch']:3}: "
              + ", ".join(f"{statistics.median(row['us'][executor]):.0f}" for executor in EXECUTORS))  # fmt: skip


# The fit. The names are those of choice.rs; products and packets have a number for each type.

def is_2_bytes(kind):
    return kind == "bfloat16"


TODAY = {"LAUNCHES_OF_LEVEL": 5.25, "UNIT": 0.075,
         **{f"PACKETS {kind}": 42e-6 if is_2_bytes(kind) else 24e-6 for kind in TYPES},
         **{f"PRODUCTS {kind}": 1 / 30e6 if is_2_bytes(kind) else 1 / 60e6 for kind in TYPES}}  # fmt: skip
# The part of a level that does not depend on the executor's units is seen beside launches alone, and stays as it is.
EXCHANGE = 1.8
# Of an H100 or H200: the multiprocessors, and the shared memory of a block.
MULTIPROCESSORS, SHARED_BYTES = 132, 227 << 10
# The parts of h in the factor and in the product, forward and backward.
WAYS = ((2, 5), (5, 2))


def units(hidden, groups):
    return math.ceil(hidden / (MULTIPROCESSORS // groups))


def fits(row, groups, depth, height):
    """Whether a way's weights and a tile fit into shared memory (crates/dynamic/src/emit/persistent.rs)."""
    hidden, own, element = row["hidden"], units(row["hidden"], groups), 2 if is_2_bytes(row["type"]) else 4
    power = lambda parts, most: 1 << int(math.log2(min(parts, most, 16)))
    columns, chunk = height * own, 32 // element
    padded = math.ceil(math.ceil(hidden / own) * depth * own / chunk) * chunk
    pitch, chunks = padded + 16 // element, padded // chunk
    parts = power(chunks, 8)
    if row["type"] == "float":
        parts = max(power(chunks, max(1, min(16, 640 // columns))), power(math.ceil(padded / 128), 8))
    tile = max(8 * pitch, 64 * depth * own) * element + (8 * parts + 64) * columns * 4
    return columns * pitch * element + tile <= SHARED_BYTES


def terms(row, groups):
    """By name what the model multiplies its numbers with, both ways, on average of the row's batches. A way whose weights do
    not fit has launches for each level. None where no way has a path."""
    hidden, kind = row["hidden"], row["type"]
    levels, rows = (statistics.mean(of) for of in zip(*row["features"], strict=True))
    paths = [way for way in WAYS if groups and fits(row, groups, *way)]
    if groups and not paths:
        return None
    by_levels = len(WAYS) - len(paths)
    found = {"LAUNCHES_OF_LEVEL": by_levels * levels, f"PRODUCTS {kind}": by_levels * rows * 2 * hidden * 5 * hidden}
    if paths:
        own, of_packet = units(hidden, groups), 6 if is_2_bytes(kind) else 3
        packets = sum(math.ceil(hidden / own) * math.ceil(depth * own / of_packet) for depth, _ in paths)
        groups = min(groups, row["batch"])
        share = (1 + (groups - 1) / row["batch"]) / groups
        found |= {"EXCHANGE": len(paths) * levels, "UNIT": len(paths) * levels * own,
                  f"PACKETS {kind}": 16 * packets * rows * share}
    return found


def of_executors(row):
    """The terms of those that run."""
    of_all = {executor: terms(row, groups) for executor, groups in EXECUTORS.items()}
    return {executor: its for executor, its in of_all.items() if its}


def regrets(numbers, rows):
    """By how much the choice is slower than the fastest executor, by rows."""
    found = []
    for row in rows:
        us = {executor: statistics.median(its) for executor, its in row["us"].items()}
        time = {executor: EXCHANGE * its.pop("EXCHANGE", 0) + sum(numbers[name] * term for name, term in its.items())
                for executor, its in of_executors(row).items()}  # fmt: skip
        chosen = min(time, key=time.get)
        found.append((us[chosen] / min(us.values()) - 1, chosen, row))
    return found


# Executors that are further behind the fastest are never chosen, and need not be right.
NEAR = 1.6


def fitted(rows):
    """Least squares of the differences between executors, over the row's fastest time."""
    names, left, right = list(TODAY), [], []
    for row in rows:
        us = {executor: statistics.median(its) for executor, its in row["us"].items()}
        least = min(us.values())
        near = [(us[executor], its) for executor, its in of_executors(row).items() if us[executor] < NEAR * least]
        known = torch.tensor([time - EXCHANGE * its.get("EXCHANGE", 0) for time, its in near], dtype=torch.float64)
        matrix = torch.tensor([[its.get(name, 0.0) for name in names] for _, its in near], dtype=torch.float64)
        left.append((matrix - matrix.mean(0)) / least)
        right.append((known - known.mean()) / least)
    scale = torch.tensor(list(TODAY.values()), dtype=torch.float64)
    found = torch.linalg.lstsq(torch.cat(left) * scale, torch.cat(right)[:, None], driver="gelsd").solution[:, 0]
    return dict(zip(names, (found * scale).tolist(), strict=True))


def fit(rows):
    for what, numbers in (("today", TODAY), ("fitted", fitted(rows))):
        print(f"{what}: " + ", ".join(
            f"{name} {1 / number if name.startswith('PRODUCTS') else number:.3g}"
            for name, number in numbers.items()))  # fmt: skip
        found = sorted(regrets(numbers, rows), key=lambda its: -its[0])
        print(f"   the choice is slower than the fastest by {100 * statistics.mean(its[0] for its in found):.1f}% on average; most: "
              + ", ".join(f"{100 * regret:.0f}% (H {row['hidden']} {row['type']} {row['batch']}: {chosen})"
                          for regret, chosen, row in found[:5]))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"], help="[cuda]; cpu tries the script")
    parser.add_argument("--rounds", type=at_least(3), default=8, help="batches of each size [8]")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--fit", metavar="JSON", help="fit to these figures, and measure nothing")
    options = parser.parse_args()
    if options.fit:
        with open(options.fit, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    else:
        rows = measure(options)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"torch": torch.__version__, "rows": rows}, file, indent=1)
    show(rows)
    if options.device == "cuda" or options.fit:
        fit(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
