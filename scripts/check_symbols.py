"""Checks the finished libraries with binutils: names, what they need, and what they export.

The source says what should be exported; the linker has the last word, so the files are what is read.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A preloaded library with a missing dependency keeps every process from starting, so the shim may need these only.
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1"}
LOADER = re.compile(r"ld-linux.*\.so\.\d+")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def dynamic(library, tag):
    return set(re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "--dynamic", "--wide", library)))


def exports(library):
    """Defined dynamic symbols and their types, as nm has them; version nodes (type A) left out."""
    names = {}
    for line in output("nm", "--dynamic", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            names[name.split("@")[0]] = kind
    return names


def listed():
    """The functions of crates/cudnn-abi/src/symbols.rs, and those that ucudnn.h declares."""
    rows = re.findall(r"^\s+(cudnn\w+): \w+, [\d.]+, \w+;", (ROOT / "crates/cudnn-abi/src/symbols.rs").read_text(), re.M)
    return set(rows), declared(ROOT / "include/ucudnn.h")


def declared(header):
    """The functions that a header made by cbindgen declares."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.S)
    return set(re.findall(r"\b(u?cudnn\w+|hostdnn\w+)\s*\([^;{}]*\)\s*;", code))


class Findings:
    def __init__(self):
        self.count = 0

    def expect(self, holds, what, names=()):
        if holds:
            print(f"  ok: {what}")
        else:
            self.count += 1
            print(f"  WRONG: {what}: {' '.join(sorted(names))}")


def check_shim(shim, real, findings, more=frozenset()):
    """`more` has libraries that the shim may need besides `SYSTEM`."""
    print(shim)
    cudnn, ours = listed()
    found = exports(shim)
    findings.expect(dynamic(shim, "SONAME") == {"libucudnn.so"}, "its soname is libucudnn.so", dynamic(shim, "SONAME"))
    needed = {n for n in dynamic(shim, "NEEDED") if not LOADER.fullmatch(n)}
    allowed = SYSTEM | more
    findings.expect(needed <= allowed, f"it needs none but {' '.join(sorted(allowed))}", needed - allowed)
    missing = (cudnn | ours) - set(found)
    findings.expect(not missing, f"it exports all {len(cudnn | ours)} functions of the list and of ucudnn.h", missing)
    stray = set(found) - cudnn - ours
    findings.expect(not stray, "it exports nothing else", stray)
    data = {name for name, kind in found.items() if kind not in "Tti"}
    findings.expect(not data, "all of them are functions", data)
    if real:
        theirs = {name for name in exports(real) if name.startswith("cudnn")}
        findings.expect(bool(theirs), f"the real library exports {len(theirs)} functions")
        findings.expect(theirs <= set(found), "every one is among ours", theirs - set(found))


def check_hostdnn(hostdnn, findings):
    print(hostdnn)
    found = set(exports(hostdnn))
    names = dynamic(hostdnn, "SONAME")
    findings.expect(names == {"libcudnn.so.9"}, "its soname is libcudnn.so.9", names)
    promised = declared(ROOT / "hostdnn/include/cudnn.h")
    findings.expect(promised <= found, f"it exports all {len(promised)} functions of its header", promised - found)
    stray = found - promised
    findings.expect(not stray, "it exports nothing else", stray)
    cudnn, _ = listed()
    unknown = {name for name in found if name.startswith("cudnn")} - cudnn
    findings.expect(not unknown, "every cudnn function of its own is one of cuDNN 9's", unknown)


def check_solver(solver, findings):
    print(solver)
    found = set(exports(solver))
    findings.expect(dynamic(solver, "SONAME") == {"libucudnn_solver.so"}, "its soname is libucudnn_solver.so")
    ours = {"ucudnn_solver_version", "ucudnn_solver_solve"}
    findings.expect(found == ours, "it exports its two functions and nothing else", found ^ ours)
    # Not RUNPATH: that would not apply to GLPK's own dependencies.
    paths = dynamic(solver, "RPATH")
    findings.expect(paths == {"$ORIGIN:$ORIGIN/ucudnn"}, "it looks for GLPK beside itself", paths)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shim", required=True, help="libucudnn.so")
    parser.add_argument("--hostdnn", help="libhostdnn.so")
    parser.add_argument("--solver", help="libucudnn_solver.so")
    parser.add_argument("--real", help="the real libcudnn.so.9, which the shim must cover")
    options = parser.parse_args()
    findings = Findings()
    check_shim(options.shim, options.real, findings)
    if options.hostdnn:
        check_hostdnn(options.hostdnn, findings)
    if options.solver:
        check_solver(options.solver, findings)
    if findings.count:
        sys.exit(f"check_symbols: {findings.count} wrong")


if __name__ == "__main__":
    main()
