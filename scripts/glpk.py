"""Builds GLPK for an older glibc than this machine's, with zig's C compiler: INTO/lib/libglpk.so.40, INTO/include/glpk.h.

A distribution's GLPK needs the glibc of that distribution, so a wheel cannot ship it. This one needs nothing but glibc:
it is built without GNU MP, and with GLPK's own copies of AMD, COLAMD and zlib.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parent
LIST = SCRIPTS / "glpk.txt"
SONAME = "libglpk.so.40"
# The findings of GLPK's configure on Linux. TLS gives each thread its own state, on which the solver relies.
DEFINED = ["-DTLS=__thread", "-DHAVE_SYS_TIME_H", "-DHAVE_GETTIMEOFDAY"]
EXPORTED = "{ global: glp_*; local: *; };\n"


def requirement():
    return next(line.split()[0] for line in LIST.read_text().splitlines() if not line.startswith("#"))


def fetch(into):
    """Unpacks GLPK's source, and returns its folder."""
    # Without isolation pip does not fetch setuptools anew.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary=:all:", "--no-build-isolation", "--require-hashes", f"--dest={into}", f"--requirement={LIST}"]
    subprocess.run(command, check=True)
    archives = list(into.glob("*.tar.gz"))
    if len(archives) != 1:
        sys.exit(f"glpk: pip fetched {len(archives)} archives for {requirement()}, and not one")
    subprocess.run(["tar", "-C", into, "-xzf", archives[0]], check=True)
    found = list(into.glob("*/glpk-*/src/glpk.h"))
    if len(found) != 1:
        sys.exit(f"glpk: {archives[0].name} holds GLPK's source {len(found)} times, and not once")
    return found[0].parent


def build(source, glibc, into):
    """Compiles the files of GLPK's own list. Its configure would try this machine's libraries."""
    automake = (source / "Makefile.am").read_text()
    files = re.search(r"libglpk_la_SOURCES = \\\n(.*?)\n\n", automake, re.S)[1].replace("\\", "").split()
    folders = [folder.replace("$(srcdir)", ".") for folder in re.findall(r"-I(\S+)", automake)]
    (into / "lib").mkdir(parents=True, exist_ok=True)
    exported = into / "exported.map"
    exported.write_text(EXPORTED)
    library = into / "lib" / SONAME
    target = f"{os.uname().machine}-linux-gnu.{glibc}"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-shared", "-fPIC", "-O2", "-g0", "-w"]
    command += ["-fno-sanitize=undefined", *DEFINED, *(f"-I{folder}" for folder in folders), *files]
    command += [f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={exported}", "-Wl,--as-needed", "-lm", "-o", str(library)]
    subprocess.run(command, check=True, cwd=source)
    (into / "lib/libglpk.so").symlink_to(SONAME)
    (into / "include").mkdir()
    shutil.copyfile(source / "glpk.h", into / "include/glpk.h")
    shutil.copyfile(source.parent / "COPYING", into / "COPYING")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glibc", required=True, help="the oldest glibc to run with, such as 2.28")
    parser.add_argument("--into", type=pathlib.Path, required=True)
    options = parser.parse_args()
    into = options.into.resolve()
    made_of = f"glibc {options.glibc}\n{LIST.read_text()}{pathlib.Path(__file__).read_text()}"
    stamp = into / "made-of.txt"
    if stamp.exists() and stamp.read_text() == made_of:
        return
    shutil.rmtree(into, ignore_errors=True)
    (into / "source").mkdir(parents=True)
    build(fetch(into / "source"), options.glibc, into)
    stamp.write_text(made_of)


if __name__ == "__main__":
    main()
