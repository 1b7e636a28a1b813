"""Does what README's first screen says, from the wheels alone: in a new environment, without a network.

    python scripts/first_screen.py build/dist

The environment sees this Python's packages. So where PyTorch and a GPU are, both the demo and `train.py` run there: a
network of convolutions and batch normalizations that trains in half. Elsewhere train.py runs convnet on hostdnn
(--convnet, --hostdnn). It prints what each command printed last, and ends with 1 if one failed or the page lacks what was
gained.
"""

import argparse
import os
import pathlib
import re
import shutil
import site
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import test_readme

ROOT = test_readme.ROOT
sys.path.insert(0, str(ROOT / "examples"))

from harness import children  # noqa: E402
COMMANDS = 5
# The lines of a command's output that are shown.
SHOWN = 6
# Longer than any of the commands takes.
DEADLINE = 300

TRAIN = """\
import os, time, torch
from torch import nn
torch.manual_seed(1)
# The doctor only looks at the calls, by the loader's words.
seconds = 5 if "LD_DEBUG" in os.environ else 20
widths = [3, 64, 64, 128, 128, 256, 256, 512]
layers = [part for a, b in zip(widths, widths[1:]) for part in (
    nn.Conv2d(a, b, 3, stride=2 if b > a > 3 else 1, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)).cuda()
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.01), torch.amp.GradScaler("cuda")
x, target = torch.randn(64, 3, 128, 128, device="cuda"), torch.randint(10, (64,), device="cuda")
begin, steps = time.monotonic(), 0
while time.monotonic() - begin < seconds:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    loss.item()
    steps += 1
print(f"{steps} steps in {time.monotonic() - begin:.0f} s, loss {loss.item():.3f}")
"""


def whole(text):
    """A path that holds in any folder."""
    return pathlib.Path(text).resolve()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=pathlib.Path, help="folder of the wheels of ucudnn and ucudnn_demo")
    parser.add_argument("--convnet", type=whole, default=ROOT / "build/convnet", help="[%(default)s]")
    parser.add_argument("--hostdnn", type=whole, default=ROOT / "build/hostdnn", help="[%(default)s]")
    parser.add_argument("--together", action="store_true",
                        help="run the demo beside what the others do: sooner, on a GPU that both share")  # fmt: skip
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the pages")
    return parser.parse_args()


def sees_gpu():
    look = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-W", "ignore", "-c", look], stderr=subprocess.DEVNULL).returncode == 0


def environment_in(folder):
    """Makes a new environment that sees this Python's packages, its own ones first. Returns its folder of programs."""
    make = [sys.executable, "-m", "venv", "--system-site-packages"]
    if subprocess.run([*make, folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        # Debian's Python has no pip for new environments; the system's serves.
        subprocess.run([*make, "--without-pip", "--clear", folder], check=True)
        pip = folder / "bin/pip"
        pip.write_text(f'#!/bin/sh\nexec {folder}/bin/python -m pip "$@"\n')
        pip.chmod(0o755)
    # If this Python is an environment itself, the new one sees only what both are made from.
    own = next(folder.glob("lib/python*/site-packages"))
    (own / "outer.pth").write_text("".join(f"{packages}\n" for packages in site.getsitepackages()))
    return folder / "bin"


def main():
    options = parse_arguments()
    commands = test_readme.commands(ROOT / "README.md")[:COMMANDS]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        work = folder / "work"
        (work / "build/dist").mkdir(parents=True)
        for name in ("ucudnn", "ucudnn_demo"):
            for wheel in options.wheels.glob(f"{name}-*.whl"):
                shutil.copy(wheel, work / "build/dist")
        has_gpu = sees_gpu()
        (work / "train.py").write_text(TRAIN if has_gpu else test_readme.train(options))
        variables = {"HOME": str(folder / "home"), "PATH": f"{environment_in(folder / 'venv')}:{os.environ['PATH']}",
                     "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1"}  # fmt: skip
        (folder / "home").mkdir()
        install, demo, *others = commands
        lanes = [[demo], others] if options.together else [[demo, *others]]
        in_order = lambda lane: [command for command in lane if not runs(command, work, os.environ | variables)]  # noqa: E731
        failed = in_order([install])
        with ThreadPoolExecutor(len(lanes)) as pool:
            failed += sum(pool.map(in_order, lanes), [])
        for page in (work / "ucudnn-demo/demo.html", work / "run.html"):
            told = re.search(r"Plain cuDNN takes .* as fast|[0-9] times as fast|[0-9] → [0-9.]+ ms", page.read_text()) if page.exists() else None
            if told:
                print(f"{page.name}: {told[0]}")
            else:
                failed.append(f"{page.name} does not show what was gained")
            if options.keep and page.exists():
                options.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(page, options.keep)
    for what in failed:
        print(f"first_screen: FAILED: {what}")
    print(f"first_screen: {len(commands)} commands {'on the GPU' if has_gpu else 'on hostdnn'}, {len(failed)} failed")
    return 1 if failed else 0


def runs(command, work, environment):
    """Runs a command, and shows the end of what it said. Returns whether it succeeded."""
    begin, log = time.monotonic(), work / f"said-{' '.join(command.split()[:2])}"
    with open(log, "w") as out:
        child = children.begin(["bash", "-euo", "pipefail", "-c", command], environment, cwd=work, stdin=subprocess.DEVNULL,
                               stdout=out, stderr=subprocess.STDOUT)  # fmt: skip
        try:
            status = child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            status = "no end"
        finally:
            children.end(child)
    said = log.read_text(errors="replace")
    lines = [line[:160] for line in re.split(r"[\r\n]+", said) if line.strip()]
    print(f"$ {command}\n  " + "\n  ".join(lines[-SHOWN:]) + f"\n  ({status}, {time.monotonic() - begin:.0f} s)", flush=True)
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
