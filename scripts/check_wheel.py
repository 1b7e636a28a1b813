"""check_wheel.py WHEEL GLPK DEMO: reads the finished wheels: their tags against their ELF files, their lists, their sizes."""

import argparse
import ast
import base64
import csv
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import check_symbols
import wheel as packing

# The size that a user downloads.
MOST_BYTES = 12e6
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]


def check_list(archive, findings):
    """RECORD names each file once, with its hash and its size."""
    record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
    rows = {row[0]: row[1:] for row in csv.reader(archive.read(record).decode().splitlines())}
    wrong = set(rows) ^ set(archive.namelist())
    for name in set(archive.namelist()) - wrong - {record}:
        content = archive.read(name)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if rows[name] != [f"sha256={digest}", str(len(content))]:
            wrong.add(name)
    findings.expect(not wrong, f"its list names all {len(rows)} files, with hash and size", wrong)


def check_tag(wheel, folder, shipped, findings):
    files = packing.elf_files(folder)
    names = {file.name for file in files}
    findings.expect(names == shipped, f"its programs and libraries are {' '.join(sorted(shipped))}", names ^ shipped)
    major, minor, machine = re.fullmatch(r".*-py3-none-manylinux_(\d+)_(\d+)_(\w+)\.whl", wheel.name).groups()
    late = {file.name for file in files if packing.needed_glibc(file) > (int(major), int(minor))}
    needed = max(packing.needed_glibc(file) for file in files)
    findings.expect(not late, f"no file needs more than glibc {major}.{minor} (the most: {needed[0]}.{needed[1]})", late)
    findings.expect(packing.tag(files, (int(major), int(minor))).endswith(machine), f"they are for {machine}")
    packing.check_needs(files)
    sections = {file.name for file in files if ".debug_info" in check_symbols.output("readelf", "-SW", file)}
    findings.expect(not sections, "no file has debug information", sections)


def check_pip(wheel, findings):
    """pip takes the wheel for each Python, also for those that are not here. Nothing is installed."""
    refused = set()
    for python in PYTHONS:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--dry-run", "--no-index",
                   "--no-deps", "--only-binary=:all:", "--target=/nonexistent", f"--python-version={python}", wheel]
        if subprocess.run(command).returncode:
            refused.add(python)
    findings.expect(not refused, f"pip takes it for Python {PYTHONS[0]} to {PYTHONS[-1]}", refused)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("glpk", type=pathlib.Path, help="the wheel of the extra glpk")
    parser.add_argument("demo", type=pathlib.Path, help="the wheel of the extra demo")
    options = parser.parse_args()
    findings = check_symbols.Findings()
    library, solver, demo = {"ucudnn", "libucudnn.so"}, {packing.dist.SOLVER, packing.glpk.SONAME}, {"convnet", "libcudnn.so.9"}
    for wheel, shipped in [(options.wheel, library), (options.glpk, solver), (options.demo, demo)]:
        print(wheel.name)
        size = wheel.stat().st_size
        findings.expect(size <= MOST_BYTES, f"it has at most {MOST_BYTES / 1e6:.0f} MB", [f"{size / 1e6:.1f}"])
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
            check_list(archive, findings)
            archive.extractall(folder)
            folder = pathlib.Path(folder)
            check_tag(wheel, folder, shipped, findings)
            for source in folder.rglob("*.py"):
                oldest = tuple(map(int, PYTHONS[0].split(".")))
                ast.parse(source.read_text(), feature_version=oldest)
            lib = folder / "ucudnn/lib"
            if shipped is not solver:
                gpl = {file.parent.name for file in folder.rglob("*") if file.is_file() and b"GNU GENERAL PUBLIC" in file.read_bytes()}
                findings.expect(not gpl, "it has no licence of the GPL", gpl)
            if shipped is library:
                check_symbols.check_shim(lib / "libucudnn.so", None, findings, packing.MOVED)
            elif shipped is solver:
                check_symbols.check_solver(lib / packing.dist.SOLVER, findings)
            else:
                check_symbols.check_hostdnn(folder / "ucudnn" / packing.DEMO / "build/hostdnn/libcudnn.so.9", findings)
        check_pip(wheel, findings)
    if findings.count:
        sys.exit(f"check_wheel: {findings.count} wrong")


if __name__ == "__main__":
    main()
