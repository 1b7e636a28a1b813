"""Writes the licences of the Rust crates that are linked into what we ship: those of the library and the command in a
folder of their own, those of the solver, which has GLPK's bindings, in another one, INTO-solver, and those of hostdnn, which
is a part of the demo, in INTO-demo.

`make build` does so: what is built can be packed and installed where there is no cargo.
"""

import argparse
import fcntl
import filecmp
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

from check_symbols import output

ROOT = pathlib.Path(__file__).resolve().parent.parent
LICENCE = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.I)
SHIPPED = {"": ("ucudnn", "ucudnn-command"), "-solver": ("ucudnn-solver",), "-demo": ("hostdnn",)}


def host():
    return re.search(r"^host: (.*)$", output("rustc", "-vV"), re.M)[1]


def metadata_of(cargo):
    command = [cargo, "metadata", "--locked", "--format-version=1", "--filter-platform", host()]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)


def linked(metadata, shipped):
    """The crates of others that are linked into ours, by name, as `cargo metadata` describes them."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    reached = [id for id, package in packages.items() if package["name"] in shipped]
    for id in reached:
        needed = [it["pkg"] for it in nodes[id]["deps"] if any(kind["kind"] is None for kind in it["dep_kinds"])]
        reached += [it for it in needed if it not in reached]
    # A crate without a source is a part of this repository.
    found = (packages[id] for id in reached if packages[id]["source"] is not None)
    return sorted(found, key=lambda package: package["name"])


def write(metadata, shipped, into):
    into.mkdir()
    lines = []
    for package in linked(metadata, shipped):
        folder = pathlib.Path(package["manifest_path"]).parent
        crate = f"{package['name']}-{package['version']}"
        for file in sorted(folder.iterdir()):
            if file.is_file() and LICENCE.match(file.name):
                (into / crate).mkdir(exist_ok=True)
                shutil.copyfile(file, into / crate / file.name)
        lines.append(f"{crate}: {package['license'] or package['license_file']}; {package['repository']}")
    text = f"The Rust crates that are linked into {' and '.join(shipped)}.\n\n"
    (into / "README").write_text(text + "\n".join(lines) + "\n")


def files(folder):
    return sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())


def put(made, into):
    """Puts the folder in place. One that is right stays as it is: another build may be reading it, or doing the same."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with open(into.with_name(f".{into.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        names = files(made)
        if files(into) == names and len(filecmp.cmpfiles(made, into, names, shallow=False)[0]) == len(names):
            return
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(made, into)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cargo", default="cargo")
    parser.add_argument("--into", type=pathlib.Path, required=True, help="the folder")
    options = parser.parse_args()
    metadata = metadata_of(options.cargo)
    for ending, shipped in SHIPPED.items():
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "licences"
            write(metadata, shipped, made)
            put(made, options.into.with_name(options.into.name + ending))


if __name__ == "__main__":
    main()
