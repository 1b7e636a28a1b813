"""Trains one network under DistributedDataParallel on several GPUs, plain and with libucudnn.so, from an empty database.

    python examples/pytorch/ddp.py --shim target/release/libucudnn.so --gpus 2 --out build/ddp

Prints the step's time over windows of a second, so that exploring shows; whether all ranks have the same gradients; the
gradients' error against float64; and how many problems each rank timed: one rank explores a problem, and the others
take its results from the database. `--device cpu` tries the script by gloo; the library then has nothing to do.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import finds_harness  # noqa: F401
from harness import arguments, calls, variables
from harness.arguments import count
from harness.columns import aligned
from harness.results import events
from networks import NETWORKS, settle
from training import Training, add_arguments, reference

WINDOW = 1.0  # seconds


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add(parser, "shim", "device", out={"help": "a folder for reports and the database"})
    parser.add_argument("--gpus", default=2, type=count)
    parser.add_argument("--seconds", default=60.0, type=float, help="of training, plain and with the library")
    parser.add_argument("--network", default="resnet50", choices=NETWORKS)
    add_arguments(parser, "half")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    settle(parser, options)
    return options


def windows(training, options):
    """The median of the steps' milliseconds in each window. All ranks make the same steps, as their collectives wait."""
    found, times, begin, wait = [], [], time.monotonic(), calls.waiting(options.device)
    end = torch.zeros(1, device=options.device)
    while not end.item():
        before = time.monotonic()
        training()
        wait()
        now = time.monotonic()
        times.append(1e3 * (now - before))
        if now - begin >= WINDOW * (len(found) + 1):
            found.append(statistics.median(times))
            times = []
        end.fill_(now - begin >= options.seconds)
        torch.distributed.broadcast(end, 0)
    return found


def rank(options):
    """One rank: trains, compares its gradients with the others', and rank 0 prints the findings as JSON."""
    number, device = int(os.environ["LOCAL_RANK"]), options.device
    if device == "cuda":
        torch.cuda.set_device(number)
    torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    calls.allow_tf32(options.precision == "tf32")
    network = NETWORKS[options.network]
    training = Training(network, options.batch, options.size, options.layout, options.precision, device)
    # All ranks have the same images, so that one GPU's gradients are those of all.
    training.forward = DistributedDataParallel(training.model)
    found = windows(training, options)
    errors = training.errors(training, reference(network, options.batch, options.size, device))
    gradients = torch.cat([gradient.flatten() for _, gradient, _ in training.gradients()])
    same = calls.is_alike(gradients)
    if number == 0:
        worst = max(error for kind in errors.values() for error in kind.values() if error is not None)
        print(json.dumps({"windows_ms": found, "same_gradients": same, "worst_error": worst}))
    torch.distributed.destroy_process_group()


def train(options, kind, gpus):
    """Starts the ranks, and returns rank 0's findings."""
    name = f"{kind}-{gpus}"
    for old in options.out.glob(f"{name}.*"):
        old.unlink()
    report, environment = options.out / f"{name}.jsonl", variables.plain() | {"OMP_NUM_THREADS": "4"}
    if kind == "with":
        database = str(options.out / f"{name}.sqlite")
        environment |= variables.preloaded(options.shim, report, UCUDNN_DATABASE=database)
    given = ("network", "batch", "size", "layout", "precision", "device", "seconds", "out")
    words = [word for key in given for word in (f"--{key}", str(getattr(options, key)))]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={gpus}", __file__,
               *words, "--rank"]  # fmt: skip
    print(f"ddp: {options.network}, {options.precision}, {kind}, {gpus} ranks", file=sys.stderr)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"ddp: the ranks ended with status {done.returncode}")
    found = json.loads(done.stdout.splitlines()[-1])
    return found | {"problems": len({line["spec"] for line in events(report, "timed")})}


def main():
    options = parse_arguments()
    if options.rank:
        return rank(options)
    options.out.mkdir(parents=True, exist_ok=True)
    kinds = ["plain", "with"] if options.shim else ["plain"]
    results = {f"{kind}, {gpus}": train(options, kind, gpus) for gpus in (1, options.gpus) for kind in kinds}
    (options.out / "results.json").write_text(json.dumps(results, indent=1))
    lines = [["ranks", "first s", "worst s", "last s", "same gradients", "worst error", "problems timed"]]
    for name, found in results.items():
        times = found["windows_ms"]
        cells = [f"{ms:.1f} ms" for ms in (times[0], max(times[1:] or times), times[-1])]
        cells += [str(found["same_gradients"]), f"{found['worst_error']:.2e}", str(found["problems"])]
        lines.append([name, *cells])
    print(*aligned(lines), sep="\n")
    return 0 if all(found["same_gradients"] for found in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
