"""Does what README.md and docs/ say: runs each command of their shell blocks, in a fresh home and an empty folder.

There are two rooms. In one the wheel is installed with pip, in the other the repository is cloned. Both run on hostdnn.
`COMMANDS` names every command of the pages, in the order of running, with its room or the reason why it does not run
here. A command that it does not name is an error, and so is a name that no page has.
"""

import argparse
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Far longer than any command takes: it ends a hang.
DEADLINE = 900

WHEEL, CLONE = "wheel", "clone"
PART = "is a part of make test"
LONG = "takes too long here; .ci/run has it as a step of its own"

COMMANDS = {
    "pip install build/dist/ucudnn-*.whl build/dist/ucudnn_demo-*.whl": WHEEL,
    "ucudnn demo": WHEEL,
    "pip install build/dist/ucudnn-*.whl": WHEEL,
    "ucudnn run python train.py": WHEEL,
    "python -m ucudnn --version": WHEEL,
    "ucudnn run --report run.jsonl python train.py": WHEEL,
    "ucudnn report run.jsonl --html run.html": WHEEL,
    "ucudnn doctor -- python train.py": WHEEL,
    "UCUDNN_LOG=info ucudnn run python train.py": WHEEL,
    "ucudnn db list": WHEEL,
    "ucudnn db export results.jsonl": WHEEL,
    "ucudnn db import results.jsonl": WHEEL,
    "ucudnn db prune --help": WHEEL,
    "rm -rf ~/.cache/ucudnn": WHEEL,
    "pip uninstall --yes ucudnn-demo ucudnn-glpk ucudnn": WHEEL,
    "make": CLONE,
    "make build": CLONE,
    "make install": CLONE,
    "make uninstall": CLONE,
    "make install PREFIX=$HOME/.local": CLONE,
    "make dist": CLONE,
    "make demo": CLONE,
    "LD_PRELOAD=$PWD/target/release/libucudnn.so program": CLONE,
    "ucudnn run --total-workspace-size 480MiB --report wd.jsonl build/convnet --limit none --batch 128 "
    "examples/networks/alexnet.csv": CLONE,
    "ucudnn plot division wd.jsonl --network examples/networks/alexnet.csv -o division.svg": CLONE,
    "ucudnn plan examples/networks/alexnet.csv --batch 128 --limit 8MiB,64MiB --total 60MiB,120MiB,480MiB": CLONE,
    "ucudnn plot totals examples/networks/alexnet.csv --batch 128 -o totals.svg": CLONE,
    "ucudnn plot desirable examples/networks/alexnet.csv --batch 128 --layers conv4 --directions BF -o conv4.svg": CLONE,
    "make uninstall PREFIX=$HOME/.local": CLONE,
    "ucudnn plot graphs trees.json -o trees.svg": "needs a file that PyTorch makes; command::plot draws one",
    "make test": LONG,
    "make docs": "is a step of its own in .ci/run; it would fetch Sphinx anew",
    "PYTHONPATH=python python examples/pytorch/tree_lstm.py --train": "needs PyTorch; make test-python runs it",
    "PYTHONPATH=python python examples/pytorch/dynamic_nets.py --net lstm --threads 2": "the same",
    "PYTHONPATH=python python examples/pytorch/dynamic_steps.py": "needs PyTorch",
    "gcc -std=c99 -O2 -DUCUDNN_WITHOUT_CUDNN_H -Iinclude examples/tree_lstm.c -Ltarget/release -lucudnn -lm -o lstm": PART,
    "LD_LIBRARY_PATH=target/release ./lstm": PART,
    "gcc -std=c99 -O2 -Iinclude examples/gru.c examples/convnet/memory.c -Ltarget/release -lucudnn -ldl -lm -o gru": PART,
    "LD_LIBRARY_PATH=target/release ./gru": PART,
    "docker build --tag ucudnn .": "needs docker; make container checks the Dockerfile",
    "docker run --rm ucudnn ucudnn doctor": "make container runs it",
    "docker run --rm ucudnn ucudnn demo": "the same",
    "docker run --rm --gpus all ucudnn ucudnn doctor": "needs docker and a GPU",
    "make gpu-pytorch": "needs a GPU",
    "make rnn-bench": "needs a GPU",
    "cargo test -p ucudnn-vertex": PART,
    "cargo test -p ucudnn-dynamic --test kernels -- each_function": PART,
    "cargo test -p ucudnn-headers": PART,
    "cargo test --test tests ucudnn_header::": PART,
    "sudo make install": "`make install` runs below a DESTDIR; this would change the machine",
    "make wheel": "has made the wheel that is installed here",
    "ucudnn run torchrun --nproc_per_node 2 train.py": "needs two GPUs",
    "ucudnn doctor -- ./program": "needs a program that is linked with cuDNN; tests/command/doctor.rs has one",
    "UCUDNN_LOG=info ucudnn run --report run.jsonl ./program": "the same",
    "ucudnn tune --rnn 'LSTM hidden=256 layers=2 batch=1,10,20 steps=100' --top-k 20": "emulating it takes too long",
    "ucudnn tune --rnn 'LSTM hidden=256 batch=20 steps=100 type=bfloat16 training=yes'": "emulating it takes too long",
    "ucudnn tune --rnn run.jsonl": "needs a report of recurrent networks, which train.py does not run",
    "ucudnn tune --norm '128x64x56x56 half'": "emulating it takes too long",
    "ucudnn tune --norm run.jsonl": "needs a report of batch normalization, which train.py does not run",
    "ucudnn plan --device examples/devices/h200.json examples/networks/vgg16.csv --batch 256 --type half "
    "--limit 0,64MiB": "needs the real cuDNN, 0.8 GB",
    """CXXFLAGS='-include ucudnn.h' LDFLAGS="$(pkg-config --libs ucudnn)" make""": "needs Caffe's sources",
    "FUNCTION[@algo=ID][@batch=N][:COUNT[+]][=OUTCOME]": "is a grammar",
}
# Two images exercise a command as well as 128. The demo's promise is its page.
SMALLER = {"--batch 128": "--batch 2", "ucudnn demo": "ucudnn demo --batch 2 && test -s ucudnn-demo/demo.html"}
# Variables of single commands: nothing is written outside the room, and the demo trains with 2 images too.
VARIABLES = {
    "make install": {"DESTDIR": "$ROOM/packaged"},
    "make uninstall": {"DESTDIR": "$ROOM/packaged"},
    "make demo": {"ARGS": "--batch 2"},
}

# In the user's program's place: a network's training on hostdnn, in a process that inherits the environment.
TRAIN = """\
import os, subprocess, sys
environment = os.environ | {{"LD_LIBRARY_PATH": {hostdnn!r}}}
command = [{convnet!r}, "--batch", "2", "--layers", "conv5", "--iterations", "4", {network!r}]
sys.exit(subprocess.run(command, env=environment).returncode)
"""


def blocks(page):
    """The lines of a page's shell blocks. An indented block begins after an empty line; a fenced one names a language."""
    inside, fence, before = False, None, ""
    for line in page.read_text().splitlines():
        if found := re.match(r"\s*```(\w*)", line):
            fence = None if fence is not None else found[1]
        elif fence is not None:
            if fence in ("sh", "bash", "shell", "console", ""):
                yield line.strip()
        else:
            inside = line.startswith("    ") and bool(line.strip()) and (inside or not before.strip())
            if inside:
                yield line.strip()
        before = line


def commands(page):
    """The commands of a page's shell blocks, without comments, each on one line."""
    text = "\n".join(re.sub(r"(^|\s)#.*$", "", line) for line in blocks(page))
    joined = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    return [re.sub(r"\s+", " ", line).strip() for line in joined if line.strip()]


def all_commands():
    """The commands of all pages, with the pages that have them."""
    found = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for command in commands(page):
            found.setdefault(command, []).append(str(page.relative_to(ROOT)))
    return found


class Room:
    """A folder with a home of its own, and the few variables of a fresh login."""

    def __init__(self, folder, path):
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir(parents=True)
        self.environment = {"HOME": str(self.home), "LANG": "C.UTF-8", "PATH": f"{path}:/usr/local/bin:/usr/bin:/bin"}
        self.log = folder / "log.txt"

    def run(self, command, **variables):
        """Runs a command line in bash. Returns the error's text, or None."""
        variables = {name: value.replace("$ROOM", str(self.folder)) for name, value in variables.items()}
        with open(self.log, "w") as log:
            try:
                ended = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=self.work, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, timeout=DEADLINE, env=self.environment | variables)
            except subprocess.TimeoutExpired:
                return f"not done within {DEADLINE} s\n{self.log.read_text()[-4000:]}"
        return None if ended.returncode == 0 else f"exit status {ended.returncode}\n{self.log.read_text()[-4000:]}"

    def program(self, name, text):
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)


def train(options):
    network = ROOT / "examples/networks/alexnet.csv"
    return TRAIN.format(hostdnn=str(options.hostdnn), convnet=str(options.convnet), network=str(network))


def wheel_room(folder, options):
    """An empty virtual environment, beside the wheels and the user's program."""
    room = Room(folder, folder / "venv/bin")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (room.work / "build/dist").mkdir(parents=True)
    for name in ("ucudnn", "ucudnn_demo"):
        wheels = list(options.wheels.glob(f"{name}-*.whl"))
        if len(wheels) != 1:
            sys.exit(f"test_readme: {len(wheels)} wheels of {name} in {options.wheels}, and not one: run make wheel")
        shutil.copy(wheels[0], room.work / "build/dist")
    (room.work / "train.py").write_text(train(options))
    return room


def clone_room(folder, options):
    """A clone. It has the files' times and the folder of built things of this repository, so that nothing is built anew."""
    cargo = pathlib.Path(shutil.which(options.cargo) or sys.exit(f"test_readme: no {options.cargo}")).parent
    room = Room(folder, f"{folder}/home/.local/bin:{folder}/bin:{cargo}")
    home = pathlib.Path.home()
    room.environment["CARGO_HOME"] = os.environ.get("CARGO_HOME", str(home / ".cargo"))
    room.environment["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", str(home / ".rustup"))
    room.environment["CARGO_INCREMENTAL"] = "0"
    subprocess.run(["git", "clone", "--quiet", ROOT, room.work], check=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=room.work, check=True, stdout=subprocess.PIPE, text=True)
    unchanged = []
    for name in filter(None, listed.stdout.split("\0")):
        here, there = ROOT / name, room.work / name
        if here.is_file() and not there.is_symlink() and here.read_bytes() == there.read_bytes():
            unchanged.append(name)
    # Folders too: cargo looks at the times of those that a build script reads.
    folders = {str(folder) for name in unchanged for folder in pathlib.PurePath(name).parents}
    for name in [*unchanged, *folders]:
        shutil.copystat(ROOT / name, room.work / name)
    (room.work / "target").symlink_to(options.target.resolve())
    room.program("program", f"#!{sys.executable}\n{train(options)}")
    room.environment["LD_LIBRARY_PATH"] = str(room.work / "build/hostdnn")
    if why := room.run("make build/convnet"):
        sys.exit(f"test_readme: make build/convnet in the clone: {why}")
    return room


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=pathlib.Path, required=True, help="cargo's folder, with its folder release")
    parser.add_argument("--convnet", type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument("--wheels", type=pathlib.Path, default=ROOT / "build/dist", help="the folder of the wheel")
    parser.add_argument("--hostdnn", type=lambda path: pathlib.Path(path).absolute(), default=ROOT / "build/hostdnn")
    parser.add_argument("--cargo", default="cargo")
    options = parser.parse_args()
    found = all_commands()
    unknown = [f"{' '.join(pages)} has a command without a room or a reason: {command}" for command, pages in found.items()
               if command not in COMMANDS]
    gone = [f"no page has this command any more: {command}" for command in COMMANDS if command not in found]
    if unknown or gone:
        sys.exit("\n".join([f"test_readme: see COMMANDS in {__file__}", *unknown, *gone]))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make in ((WHEEL, wheel_room), (CLONE, clone_room)):
            room = make(pathlib.Path(folder) / name, options)
            for command in (command for command, where in COMMANDS.items() if where == name):
                smaller = command
                for what, by in SMALLER.items():
                    smaller = smaller.replace(what, by)
                begin = time.monotonic()
                why = room.run(smaller, **VARIABLES.get(command, {}))
                seconds = time.monotonic() - begin
                print(f"  {'WRONG' if why else 'ok'}: {name}: {smaller} ({seconds:.0f} s)", flush=True)
                if why:
                    failed += 1
                    print(f"    {' '.join(found[command])}: {why}", flush=True)
    for command, where in COMMANDS.items():
        if where not in (WHEEL, CLONE):
            print(f"  skipped: {command}: {where}")
    if failed:
        sys.exit(f"test_readme: {failed} commands failed")


if __name__ == "__main__":
    main()
