"""Checks the Dockerfile. Where docker runs, it builds the image, and runs in it what docs/install.md says.

Elsewhere it checks each step without docker, in seconds: the images have exact tags; the Debian packages are those that
tools.sh knows, and all that the build needs; the copied files exist; make has the targets. Then it does the last stage's
steps in a fresh folder in the place of the image's, with the files that this repository's build folders have, and runs
there what docs/install.md says. It names each step that it does not run.
"""

import argparse
import dataclasses
import glob
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAG = "ucudnn-checked"
KNOWN = ("FROM", "RUN", "COPY", "WORKDIR", "ENV", "CMD")
IMAGE = re.compile(r"[a-z][\w/-]*(:\d+\.\d+(\.\d+)?(-[\w.-]+)?|(:[\w.-]+)?@sha256:[0-9a-f]{64})")
HOST = re.compile(r"https?:|\b[\w-]+\.(?:com|org|net|io|dev)\b")
# Packages of tools.sh that the tests need, and the build does not.
FOR_TESTS = {"g++"}
# What docs/install.md runs in the image: the command; what is added to it here; the statuses and the text that are right.
RUNS = (
    ("ucudnn doctor", "", (0, 1), "site-packages/ucudnn/lib/libucudnn.so, version"),  # 1 without a GPU
    ("ucudnn demo", " --batch 2", (0,), "Outputs agree"),
)


@dataclasses.dataclass
class Stage:
    """A stage of the Dockerfile: its image, its name, and its steps as pairs of an instruction and its text."""

    image: str
    name: str
    steps: list = dataclasses.field(default_factory=list)

    def texts(self, instruction):
        return [text for its, text in self.steps if its == instruction]

    @property
    def folder(self):
        """The folder that all of its paths are in or relative to."""
        return (self.texts("WORKDIR") or ["/"])[0]


def parse(text):
    """The stages of a Dockerfile."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    stages = []
    for line in filter(str.strip, re.sub(r"\s*\\\n\s*", " ", text).splitlines()):
        instruction, _, rest = line.strip().partition(" ")
        if instruction not in KNOWN:
            raise ValueError(f"{instruction}: scripts/container.py knows {', '.join(KNOWN)}")
        if instruction == "FROM":
            image, _, name = rest.partition(" AS ")
            stages.append(Stage(image.strip(), name.strip()))
        elif not stages:
            raise ValueError(f"{instruction} stands before FROM")
        else:
            stages[-1].steps.append((instruction, rest.strip()))
    return stages


def packages(command):
    """The packages that a command installs with apt-get."""
    found = re.findall(r"apt-get install ([^&;|]*)", command)
    return {word for words in found for word in words.split() if not word.startswith("-")}


def known_packages():
    """The packages that tools.sh names."""
    lists = re.findall(r"missing\+=\(([^)]*)\)", (ROOT / "scripts/tools.sh").read_text())
    return {name for names in lists for name in names.split()}


def ignored():
    """The names in the repository's folder that docker does not copy."""
    names = (ROOT / ".dockerignore").read_text().split()
    if odd := [name for name in names if not re.fullmatch(r"[\w.-]+", name)]:
        raise ValueError(f".dockerignore: {odd[0]}: scripts/container.py knows names alone")
    return names


def copied(text):
    """The stage that a COPY takes from, its sources and its destination."""
    words = shlex.split(text)
    stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
    return stage, words[:-1], words[-1]


def least_rust():
    return re.search(r'^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def numbers(version):
    return tuple(map(int, version.split(".")))


def make_targets(command):
    """The targets that a command makes; None for a command that is no plain `make`."""
    words = shlex.split(command)
    return words[1:] if words[0] == "make" and all(re.fullmatch(r"[\w./-]+", word) for word in words[1:]) else None


def faults(text, stages):
    """What is wrong with the Dockerfile, as far as its text and this repository's files show."""
    if found := HOST.search(re.sub(r"^\s*#.*\n", "", text, flags=re.M)):
        yield f"{found[0]}: nothing but FROM's images names a host"
    names = []
    for stage in stages:
        if stage.image not in names and not IMAGE.fullmatch(stage.image):
            yield f"FROM {stage.image}: an exact tag, such as debian:12.11-slim, or a digest is accepted"
        if (rust := re.match(r"rust:([\d.]+)", stage.image)) and numbers(rust[1]) < numbers(least_rust()):
            yield f"FROM {stage.image}: Cargo.toml requires Rust {least_rust()}"
        installed = set().union(*map(packages, stage.texts("RUN")))
        for name in sorted(installed - known_packages()):
            yield f"apt-get install {name}: scripts/tools.sh names no such package"
        if any(make_targets(command) for command in stage.texts("RUN")):
            for name in sorted(known_packages() - FOR_TESTS - installed):
                yield f"stage {stage.name}: make needs {name}, which is not installed"
        for copy in stage.texts("COPY"):
            source, files, _ = copied(copy)
            if source and source not in names:
                yield f"COPY --from={source}: the stages before it are {', '.join(names) or 'none'}"
            for file in files if not source else ():
                if not (ROOT / file).exists() or file.split("/")[0] in ignored():
                    yield f"COPY {file}: no such file is in the repository, or .dockerignore has it"
        names.append(stage.name)
    install = (ROOT / "docs/install.md").read_text()
    for command, *_ in RUNS:
        if not re.search(rf"^    docker run --rm ucudnn {re.escape(command)}$", install, re.M):
            yield f"docs/install.md does not run this: {command}"


class NotBuilt(Exception):
    """A file that a step of the image's build makes is not in this repository's build folders."""


class Trial:
    """The Dockerfile's steps, done in fresh folders in the place of the image's."""

    def __init__(self, folder, say):
        self.say = say
        self.folders = {}  # of each stage: its place here, and its place in the image
        self.folder = folder
        self.environment = dict(os.environ)

    def stage(self, stage, is_last):
        here = self.folder / (stage.name or "last")
        here.mkdir()
        self.folders[stage.name] = here, stage.folder
        for instruction, text in stage.steps:
            if instruction == "COPY":
                self.copy(text, here)
            elif instruction == "ENV" and is_last:
                for word in shlex.split(text):
                    name, _, value = word.partition("=")
                    self.environment[name] = self.placed(value, here, stage).replace("$PATH", os.environ["PATH"])
            elif instruction == "RUN":
                self.run(stage, text, here, is_last)

    def placed(self, text, here, stage):
        """A text with the place here for the image's folder."""
        return re.sub(rf"(?<![\w.])/?{re.escape(stage.folder.lstrip('/'))}(?=/)", str(here), text)

    def run(self, stage, command, here, is_last):
        """Runs a command, or says why not."""
        if "apt-get" in command:
            self.say(f"not run: {command.split(' && ')[0]} …: it would change this machine; its packages are known")
        elif make_targets(command):
            self.done(f"make --dry-run {command.removeprefix('make ')}", here, (0,), "")
            self.say(f"not run: {command}: it takes minutes, and the check of a clone has it as a step; its targets exist")
        else:
            self.done(self.placed(command, here, stage), here, (0,), "")

    def copy(self, text, here):
        source, files, destination = copied(text)
        at = here / destination
        if not source:
            for file in files:
                left_out = shutil.ignore_patterns("__pycache__", *(ignored() if file == "." else ()))
                if (ROOT / file).is_dir():
                    shutil.copytree(ROOT / file, at, symlinks=True, dirs_exist_ok=True, ignore=left_out)
                else:
                    put(ROOT / file, at, destination)
            return
        _, folder = self.folders[source]
        for file in files:
            # What the stage would have built, this repository has.
            inside = pathlib.PurePath(file).relative_to(folder)
            found = [pathlib.Path(one) for one in sorted(glob.glob(str(ROOT / inside))) if is_of_this_version(one)]
            if not found:
                raise NotBuilt(f"{inside} is not built here")
            for one in found:
                if one.is_dir():
                    shutil.copytree(one, at, symlinks=True, dirs_exist_ok=True)
                else:
                    put(one, at, destination)

    def done(self, command, here, statuses, text):
        """Runs a command, and ends the process unless it gives what is expected."""
        ended = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=here, env=self.environment, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        expect(command, ended, statuses, text)
        self.say(f"ok: {command.replace(str(here), '…')}")


def put(file, at, destination):
    """Copies a file into a folder, which the destination names by a slash at its end, or to a path."""
    if destination.endswith("/") or at.is_dir():
        at.mkdir(parents=True, exist_ok=True)
        at = at / file.name
    at.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, at)


def is_of_this_version(file):
    """Wheels of other versions may lie beside those that a build makes."""
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    return not file.endswith(".whl") or f"-{version}-" in file


def expect(command, ended, statuses, text):
    if ended.returncode not in statuses or text not in ended.stdout:
        sys.exit(f"container: {command}: status {ended.returncode}, and {' or '.join(map(str, statuses))} is right; "
                 f"{text!r} is expected in\n{ended.stdout[-4000:]}")  # fmt: skip


def say(text):
    print(f"  {text}", flush=True)


def try_without_docker(stages):
    """Does the steps in fresh folders, and in the last one what docs/install.md says."""
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(pathlib.Path(folder), say)
        try:
            for stage in stages:
                trial.stage(stage, stage is stages[-1])
        except NotBuilt as why:
            say(f"SKIPPED the rest: {why} (make wheel)")
            return
        here, _ = trial.folders[stages[-1].name]
        # A home of its own: the database of the user stays as it is.
        trial.environment["HOME"] = str(here)
        for command, more, statuses, text in RUNS:
            trial.done(command + more, here, statuses, text)


def has_docker():
    """Whether docker's command is here, and its daemon answers."""
    if not shutil.which("docker"):
        return False
    return subprocess.run(["docker", "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def build_with_docker():
    """Builds the image, and runs in it what docs/install.md says."""
    subprocess.run(["docker", "build", "--tag", TAG, ROOT], check=True)
    for command, more, statuses, text in RUNS:
        ended = subprocess.run(["docker", "run", "--rm", TAG, *shlex.split(command + more)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        expect(command, ended, statuses, text)
        say(f"ok, in the image: {command}{more}")


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    text = (ROOT / "Dockerfile").read_text()
    try:
        stages = parse(text)
        wrong = list(faults(text, stages))
    except ValueError as error:
        wrong = [str(error)]
    if wrong:
        sys.exit("\n".join(["container: the Dockerfile is wrong:", *wrong]))
    if has_docker():
        build_with_docker()
    else:
        say("no docker runs here: each step is checked without it")
        try_without_docker(stages)


if __name__ == "__main__":
    main()
