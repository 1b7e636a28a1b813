"""Programs that went wrong under the library once: plain, by default, and with our kernels forced.

JAX's LSTM, float convolutions in 3-D over many calls, trainings that ask for deterministic algorithms, and gradients of
nets over trees. Each runs in several processes; those that take a seed get another one in each. A line for each program
and setting: ok, WRONG, or skipped, and why. The command ends with 1 if anything is wrong with the library. OUT then holds
what each process printed, and what the library chose (*.report.jsonl).
"""

import concurrent.futures
import subprocess

from gpu import machine
from gpu.session import Session
from harness.arguments import count
from harness.children import failure

SETTINGS = {
    "plain": None,
    "default": {},
    "forced": {"UCUDNN_RNN": "force", "UCUDNN_RNN_TRAINING": "force", "UCUDNN_NORM": "force"},
}
# The processes of one program that run side by side.
AT_ONCE = 4


def add_arguments(parser):
    machine.add_arguments(parser, "library", "command", out="build/gpu-reported", seconds=1200)
    machine.add_arguments(parser, "python")
    parser.add_argument("--processes", type=count, default=3, help="of each program and setting [3]")
    parser.add_argument("--seeds", type=count, default=20, help="of nets over trees [20]")
    parser.add_argument("--only", default="", help="the programs whose name, with its words, has this in it [all]")


def main(options):
    python = machine.required_torch(options)
    checks = Session(options, reserve=10)
    options.command = options.command or options.library.parent / "ucudnn"
    for name, words, runs in programs(options):
        if options.only not in named(name, words):
            continue
        if name == "jax_lstm" and (why := without_jax(python)):
            checks.verdict("skipped", name, why)
            continue
        for setting in SETTINGS:
            # Nets over graphs have no plain run.
            if setting != "plain" or name != "tree_gradients":
                check(options, checks, python, (name, words, runs), setting)
    return checks.end()


def programs(options):
    """A name, its words, and how many processes run it."""
    yield "jax_lstm", [], options.processes
    yield "repeated_conv3d", [], options.processes
    yield "deterministic", ["algorithms"], options.processes
    yield "deterministic", ["cudnn"], options.processes
    yield "tree_gradients", ["SEED"], options.seeds


def named(name, words):
    return " ".join([name, *(word for word in words if word != "SEED")])


def without_jax(python):
    """Why JAX cannot run; None if it can."""
    look = subprocess.run([python, "-c", "import jax; jax.devices('gpu')"], capture_output=True, text=True)
    return f"JAX has no GPU here: {look.stderr.strip().splitlines()[-1]}" if look.returncode else None


def check(options, checks, python, program, setting):
    name, words, runs = program
    what = f"{named(name, words)} {setting}"
    if not checks.begins(what):
        return None
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        wanted = [pool.submit(run, options, checks, python, program, setting, number) for number in range(1, runs + 1)]
        ended = [one.result() for one in wanted]
    failed = [why for why, _ in ended if why]
    lines = [said.splitlines() for _, said in ended]
    if name == "deterministic" and not failed:
        # Each line is a type and its hashes.
        failed = [f"{line}: other bits" for line in differing(lines)]
    if failed and setting == "plain":
        return checks.verdict("skipped", what, f"wrong without the library, too: {failed[0]}")
    seen = f"{runs} processes" if not failed else f"{len(failed)} of {runs} processes: {failed[0]}"
    return checks.judge(not failed, what, seen)


def differing(lines):
    """The types whose hashes differ in a process, or between two."""
    hashes = {}
    for kind, *found in (line.split() for process in lines for line in process):
        hashes.setdefault(kind, set()).update(found)
    return [kind for kind, found in hashes.items() if len(found) > 1]


def run(options, checks, python, program, setting, number):
    """Runs a process. Returns why it is wrong, or None, and what it printed."""
    name, words, _ = program
    file = "-".join([name, *(word for word in words if word != "SEED"), setting, str(number)])
    command = machine.program(name, *(str(number) if word == "SEED" else word for word in words), python=python)
    variables = SETTINGS[setting]
    if variables is not None:
        ours = machine.ours(options, options.out / f"{file}.report.jsonl", UCUDNN_DATABASE="off")
        if name == "jax_lstm":
            command = [options.command, "run", "--dlopen", *command]
            del ours["LD_PRELOAD"]
        variables = variables | ours
    log = options.out / f"{file}.log"
    # Each of several processes with JAX would take most of the memory.
    variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | (variables or {})
    status = checks.run(command, 300, machine.torch_environment(**variables), log, subprocess.STDOUT)
    said = log.read_text(errors="replace")
    wrong = next((line for line in said.splitlines() if line.startswith("WRONG")), None)
    return (None if status == 0 else wrong or failure(status, log)), said
