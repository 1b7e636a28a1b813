"""Nets over graphs: exactness, bits, compute-sanitizer, times beside PyTorch's, and what parts of the executor are worth.

In OUT, checks.txt has the checks, table.txt the times and worths, dynamic.svg their picture.
"""

import json
import subprocess

from gpu import dynamic_picture, machine
from gpu.session import Session, ended
from harness import children
from harness.arguments import some_of
from harness.cudnn import ROOT

# The nets and types that are timed. The picture has those in float.
TIMED = (("tree-lstm", "float"), ("tree-lstm", "bfloat16"), ("tree-lstm", "TF32"), ("lstm", "float"),
         ("tree-fc", "float"), ("dag-gru", "float"), ("rvnn", "float"), ("bilstm", "float"), ("td-rnn", "float"),
         ("td-lstm", "float"))  # fmt: skip
NETS, STEPS = (ROOT / "examples/pytorch" / name for name in ("dynamic_nets.py", "dynamic_steps.py"))
# The values of UCUDNN_DYNAMIC whose times are compared.
EXECUTORS = ("auto", "batched", "persistent", "persistent:2", "persistent:4", "persistent:8")
TOOLS = ("memcheck", "synccheck", "racecheck")
PARTS = ("checks", "sanitizers", "worths", "executors", "steps", "times")


def add_arguments(parser):
    machine.add_arguments(parser, "library", out="build/gpu-dynamic", seconds=1500)
    machine.add_arguments(parser, "runs", "python", "host")
    parser.add_argument("--rounds", type=int, help="batches that are timed of each size [20; with --host 3]")
    parser.add_argument("--parts", type=some_of(PARTS, "part"), default=PARTS, help=f"those that run [{','.join(PARTS)}]")


def main(options):
    session = Session(options, reserve=20)
    python = machine.required_torch(options)
    options.device = "cpu" if options.host else "cuda"
    variables = machine.torch_environment(LD_PRELOAD=options.library, UCUDNN_POLICY="off", UCUDNN_RNN="off",
                                          PYTHONPATH=ROOT / "python", PYTHONUNBUFFERED=1)  # fmt: skip
    session.say(f"{options.gpu}; {python}")
    given, lines = (session, options, variables, python), [options.gpu]
    if "checks" in options.parts:
        checks(*given)
    if "sanitizers" in options.parts and not options.host:
        for tool in TOOLS:
            sanitize(*given, tool)
    if "worths" in options.parts:
        lines += worths(*given)
    if "executors" in options.parts:
        lines += executors(*given)
    if "steps" in options.parts:
        lines += steps(*given)
    if "times" in options.parts:
        timed = [times(*given, *net_and_type) for net_and_type in TIMED]
        lines += [line for _, text in timed for line in ("", text)]
        tables = [figures for figures, _ in timed if figures and figures["type"] == "float"]
        (options.out / "dynamic.svg").write_text(dynamic_picture.draw(tables, options.gpu))
    (options.out / "table.txt").write_text("\n".join(lines) + "\n")
    print("\n".join([*lines, "", session.checks.read_text()]), end="")
    session.say(f"everything is in {options.out}")
    return 1 if session.is_wrong else 0


def checks(session, options, variables, python):
    runs = options.runs or (5 if options.host else 10000)
    for what, *numbers in (("errors",), ("captured", max(runs // 10, 2)), ("bits", runs)):
        check(session, options, variables, python, what, numbers)
    beside(session, options, variables, python, runs)
    in_groups = variables | {"UCUDNN_DYNAMIC": "persistent:4"}
    check(session, options, in_groups, python, "captured", (max(runs // 100, 2),), "in groups")


def check(session, options, variables, python, what, numbers, how=""):
    """A check of programs/dynamic_nets.py."""
    name = f"{what} {how}".strip()
    if session.is_over:
        return session.verdict("skipped", name, "no time left")
    session.say(name)
    log = options.out / f"{name.replace(' ', '-')}.log"
    command = machine.program("dynamic_nets", what, options.device, *map(str, numbers), python=python)
    status = session.run(command, 200, variables, log, subprocess.STDOUT)
    for line in log.read_text().splitlines():
        verdict, _, words = line.partition(" ")
        if verdict in ("right", "WRONG"):
            session.verdict("ok" if verdict == "right" else verdict, name, words)
    if status != 0:
        session.verdict("WRONG", name, ended(status, log))


def beside(session, options, variables, python, runs):
    """Replays while another process runs its own persistent paths on the device."""
    command = machine.program("dynamic_nets", "bits", options.device, str(runs), python=python)
    other = subprocess.Popen([*map(str, command)], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             preexec_fn=children.end_with_parent)  # fmt: skip
    try:
        check(session, options, variables, python, "captured", (max(runs // 100, 2),), "beside another program")
    finally:
        other.kill()
        other.wait()


def table(session, options, variables, python, name, *words, script=NETS):
    """A run of a timing script: its figures, and its text. The figures are None if it did not end."""
    file, log = options.out / f"{name}.json", options.out / f"{name}.log"
    file.unlink(missing_ok=True)
    rounds = options.rounds or (3 if options.host else 20)
    small = ["--batches", "1,2", "--hidden", "32"] if options.host else []
    command = [python, "-B", "-W", "ignore", script, "--device", options.device, "--rounds", rounds, "--json", file,
               *words, *small]  # fmt: skip
    status = session.run(command, 300, variables, log, subprocess.DEVNULL)
    if status != 0:
        session.verdict("WRONG", name, ended(status, log))
        return None, log.read_text()
    return json.loads(file.read_text()), log.read_text()


def times(session, options, variables, python, net, of_type):
    name = f"{net}-{of_type}"
    if session.is_over:
        session.verdict("skipped", name, "no time left")
        return None, f"{name}: no time left"
    session.say(f"times of {net} in {of_type}")
    return table(session, options, variables, python, name, "--net", net, "--type", of_type)


def steps(session, options, variables, python):
    """Whole steps of training."""
    if session.is_over:
        return ["", "steps: no time left"]
    session.say("times of steps")
    _, text = table(session, options, variables, python, "steps", script=STEPS)
    return ["", text]


def worths(session, options, variables, python):
    """What fusion, and products of whole batches, make faster: each is left out in a process of its own, and the times
    are ratios to eager PyTorch's there."""
    ratios = {}
    for dynamic in ("batched", "unfused", "unbatched"):
        if session.is_over:
            return ["the worth of parts: no time left"]
        session.say(f"times of {dynamic}")
        found, _ = table(session, options, variables | {"UCUDNN_DYNAMIC": dynamic}, python, dynamic,
                         "--methods", "ucudnn,E", "--batches", "64")  # fmt: skip
        if not found:
            return [f"the worth of parts: {dynamic} failed"]
        ratios[dynamic] = found["rows"][-1]["ratio"]["ucudnn"]["E"]
    worth = {name: ratios["batched"] / ratio for name, ratio in ratios.items()}
    return [f"Tree-LSTM, 64 trees: fusion makes it {worth['unfused']:.2f} times as fast, products of whole batches "
            f"{worth['unbatched']:.2f} times (Cavs: 1.2 each)"]  # fmt: skip


def executors(session, options, variables, python):
    """How many times as fast as eager PyTorch captured Tree-LSTMs are by each executor."""
    lines = []
    for executor in EXECUTORS:
        if session.is_over:
            return [*lines, f"{executor}: no time left"]
        session.say(f"times of {executor}")
        found, _ = table(session, options, variables | {"UCUDNN_DYNAMIC": executor}, python,
                         f"executor-{executor.replace(':', '-')}", "--methods", "ucudnn captured,E")  # fmt: skip
        if not found:
            return [*lines, f"{executor}: failed"]
        cells = [f"{row['batch']} trees {row['ms']['ucudnn captured'][1]:.3f} ms ({row['ratio']['ucudnn captured']['E']:.1f})"
                 for row in found["rows"]]  # fmt: skip
        lines.append(f"{executor}: " + ", ".join(cells))
    return ["", "Tree-LSTM, captured (times as fast as eager PyTorch)", *lines]


def sanitize(session, options, variables, python, tool):
    """A tool of compute-sanitizer. cublasLt's kernels are left out, in which racecheck sees hazards, and PyTorch's."""
    if session.is_over:
        return session.verdict("skipped", tool, "no time left")
    session.say(tool)
    log = options.out / f"{tool}.log"
    others = [word for name in ("elementwise", "xmma") for word in ("--kernel-name-exclude", f"kernel_substring={name}")]
    sanitizer = machine.sanitizer()
    if not sanitizer:
        return session.verdict("skipped", tool, "there is no compute-sanitizer")
    command = [sanitizer, "--tool", tool, *others, *machine.program("dynamic_nets", "small", "cuda", python=python)]
    session.run(command, 150, variables, log, subprocess.STDOUT)
    said = log.read_text()
    is_clean = machine.is_clean(said) and "right ran" in said
    summary = [line for line in said.splitlines() if "SUMMARY" in line] or ["no summary"]
    return session.verdict("ok" if is_clean else "WRONG", tool, summary[-1].strip("= "))
