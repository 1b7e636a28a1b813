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
CELLS = {256: (1, 2, 4, 8, 16, 32, 64, 128, 256), 512: (1, 8, 32)}
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

TODAY = {"LAUNCHES_OF_LEVEL": 12.0, "EXCHANGE": 1.0, "UNITS_DOUBLED": 1.08,
         **{f"PACKETS {kind}": 45e-6 if kind != "bfloat16" else 85e-6 for kind in TYPES},
         **{f"PRODUCTS {kind}": 1 / 16e6 if kind != "bfloat16" else 1 / 20e6 for kind in TYPES}}  # fmt: skip
# Of an H100 or H200.
MULTIPROCESSORS, SHARED_BYTES = 132, 227 << 10


def terms(row, groups):
    """By name what the model multiplies its numbers with, forward and backward, on average of the row's batches. None where
    weights do not fit into shared memory."""
    hidden, kind = row["hidden"], row["type"]
    levels, rows = (statistics.mean(of) for of in zip(*row["features"], strict=True))
    if not groups:
        multiplied = 2 * rows * 2 * hidden * 5 * hidden
        return {"LAUNCHES_OF_LEVEL": 2 * levels, f"PRODUCTS {kind}": multiplied}
    own = math.ceil(hidden / (MULTIPROCESSORS // groups))
    blocks, of_packet = math.ceil(hidden / own), 3 if kind != "bfloat16" else 6
    element = 12 // of_packet
    if 10 * hidden * own * element * 1.2 > SHARED_BYTES:
        return None
    packets = sum(blocks * math.ceil(width * own / of_packet) for width in (2, 5))
    by_groups = min(groups, row["batch"])
    return {"EXCHANGE": 2 * levels, "UNITS_DOUBLED": 2 * levels * math.log2(own),
            f"PACKETS {kind}": 16 * packets * rows / by_groups}  # fmt: skip


def by_model(numbers, row):
    """The model's µs by the executors that run."""
    of_all = {executor: terms(row, groups) for executor, groups in EXECUTORS.items()}
    return {executor: sum(numbers[name] * its for name, its in of.items()) for executor, of in of_all.items() if of}


def regrets(numbers, rows):
    """By how much the choice is slower than the fastest executor, by rows."""
    found = []
    for row in rows:
        us = {executor: statistics.median(row["us"][executor]) for executor in EXECUTORS}
        model = by_model(numbers, row)
        chosen = min(model, key=model.get)
        found.append((us[chosen] / min(us[executor] for executor in model) - 1, chosen, row))
    return found


def fitted(rows):
    """Least squares of the differences between executors, over the row's fastest time; then steps of single numbers that
    make the choice better."""
    names, left, right = list(TODAY), [], []
    for row in rows:
        of_all = {executor: terms(row, groups) for executor, groups in EXECUTORS.items()}
        its = [executor for executor, of in of_all.items() if of]
        us = torch.tensor([statistics.median(row["us"][executor]) for executor in its], dtype=torch.float64)
        matrix = torch.tensor([[of_all[executor].get(name, 0.0) for name in names] for executor in its], dtype=torch.float64)
        weight = 1 / us.min()
        # Executors that are far behind are never chosen, and need not be right.
        near = us < 3 * us.min()
        left.append(weight * (matrix[near] - matrix[near].mean(0)))
        right.append(weight * (us[near] - us[near].mean()))
    scale = torch.tensor([TODAY[name] for name in names], dtype=torch.float64)
    solved = torch.linalg.lstsq(torch.cat(left) * scale, torch.cat(right)[:, None], driver="gelsd").solution[:, 0] * scale
    numbers = {name: max(number, 0.05 * TODAY[name]) for name, number in zip(names, solved.tolist(), strict=True)}
    cost = lambda numbers: sum(regret + regret**2 * 10 for regret, *_ in regrets(numbers, rows))
    for step in (1.3, 1.1, 1.03) * 3:
        for name in names:
            tried = [numbers | {name: numbers[name] * factor} for factor in (1.0, step, 1 / step)]
            numbers = min(tried, key=cost)
    return numbers


def fit(rows):
    for what, numbers in (("today", TODAY), ("fitted", fitted(rows))):
        print(f"{what}: " + ", ".join(
            f"{name} {number:.3g}" if not name.startswith("PRODUCTS") else f"{name} {1 / number:.3g}"
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
