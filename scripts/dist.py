"""Lays out the files to install or pack, under one folder:

    bin/ucudnn                     the command
    include/ucudnn.h
    lib/libucudnn.so               the library to preload or to link with
    lib/libucudnn_solver.so        divides one workspace over a network; libucudnn.so loads it from its own folder
    lib/ucudnn/                    GLPK and its dependencies, for the solver alone: no system-wide search finds them
    lib/ucudnn/libcudnn.so, .so.9  libucudnn.so under cuDNN's names, for linkers
    lib/pkgconfig/ucudnn.pc
    share/ucudnn/                  example networks and devices, for the command; the list of what was installed
    share/man/man1/                the command's manual pages
    share/bash-completion/, share/zsh/, share/fish/
                                   its completions
    share/doc/ucudnn/              README.md, its pages, and the licences of all shipped parts

No file knows where the folder is, so the folder may be moved. wheel.py packs the same layout.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import uninstall
from check_symbols import LOADER, SYSTEM, output

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOC = "share/doc/ucudnn"

PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: ucudnn
Description: cuDNN's C ABI with faster convolutions, recurrent networks and batch normalization
Version: {version}
Libs: -L${{libdir}}/ucudnn -L${{libdir}} -lucudnn
Cflags: -I${{includedir}}
"""


class Layout:
    """A folder that is being filled. It remembers what was put there, by places relative to it."""

    def __init__(self, into):
        self.into = into
        self.files = set()
        self.folders = set()  # those that were not there before

    def put(self, source, place, mode=0o644, strip=None):
        """Copies a file and puts the copy in place at once: a program that uses the old file keeps it."""
        new = self._new(place)
        shutil.copyfile(source, new)
        if strip:
            subprocess.run([*strip, new], check=True)
        new.chmod(mode)
        os.replace(new, self.into / place)

    def link(self, target, place):
        """Puts a symbolic link in place at once."""
        new = self._new(place)
        new.symlink_to(target)
        os.replace(new, self.into / place)

    def write(self, text, place):
        new = self._new(place)
        new.write_text(text)
        new.chmod(0o644)
        os.replace(new, self.into / place)

    def _new(self, place):
        """The name under which a file is made, beside its place."""
        place = pathlib.PurePath(place)
        for folder in reversed(place.parents):
            if not (self.into / folder).is_dir():
                (self.into / folder).mkdir(parents=True)
                self.folders.add(folder)
        self.files.add(place)
        new = self.into / place.with_name(f".{place.name}.new")
        new.unlink(missing_ok=True)
        return new


def needed(library):
    """The libraries that `library` needs, directly or not, by the names that it needs; without the system's."""
    found = {}
    for line in output("ldd", library).splitlines():
        name, _, place = line.strip().partition(" => ")
        if not place or name in SYSTEM or LOADER.search(name):
            continue
        if not place.startswith("/"):
            sys.exit(f"dist: {library} needs {name}: {place}")
        found[name] = pathlib.Path(place.split(" (")[0]).resolve()
    return found


def package(library):
    """The Debian package of a file, with its version; None if unknown."""
    try:
        # If /lib is a link to /usr/lib, a package may list its files under either name.
        names = [str(library), str(library).removeprefix("/usr")]
        owner = subprocess.run(["dpkg", "-S", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        name = owner.stdout.split(": ")[0]
        return (name.split(":")[0], output("dpkg-query", "-W", "-f=${Version}", name)) if name else None
    except FileNotFoundError:
        return None


def put_libraries(solver, layout):
    """Puts in place the libraries that the solver needs, and lists their licences."""
    lines = []
    for name, place in sorted(needed(solver).items()):
        layout.put(place, f"lib/ucudnn/{name}")
        owner = package(place)
        copyright = pathlib.Path("/usr/share/doc") / owner[0] / "copyright" if owner else None
        if copyright and copyright.exists():
            layout.put(copyright, f"{DOC}/libraries/{owner[0]}.copyright")
            lines.append(f"{name}  from Debian's package {owner[0]} {owner[1]}: {owner[0]}.copyright")
        else:
            print(f"dist: no licence was found for {name} ({place}): add it before you pass this on", file=sys.stderr)
            lines.append(f"{name}  from {place}")
    text = "The libraries in lib/ucudnn, unchanged. Their sources: apt-get source PACKAGE=VERSION.\n\n"
    layout.write(text + "\n".join(lines) + "\n", f"{DOC}/libraries/README")


def put_crates(target, layout, ending=""):
    """Puts in place the licences of the Rust crates that are linked into the shipped files, as crates.py wrote them."""
    folder = target / f"licences{ending}"
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        layout.put(file, f"{DOC}/crates{ending}/{file.relative_to(folder)}")


def version():
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


COMPLETIONS = {
    "bash": "share/bash-completion/completions/ucudnn",
    "zsh": "share/zsh/site-functions/_ucudnn",
    "fish": "share/fish/vendor_completions.d/ucudnn.fish",
}


def put_shell(command, layout):
    """Has the built command write its completions and its manual pages."""
    for shell, place in COMPLETIONS.items():
        layout.write(output(command, "completions", shell), place)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([command, "man", folder], check=True)
        for page in pathlib.Path(folder).iterdir():
            layout.put(page, f"share/man/man1/{page.name}")


STRIP_LIBRARY = ["strip", "--strip-unneeded"]
SOLVER = "libucudnn_solver.so"
BUILT = ("libucudnn.so", "ucudnn", "licences/README")


def check_built(target, names):
    if missing := [name for name in names if not (target / name).exists()]:
        sys.exit(f"dist: {target} has no {', no '.join(missing)}. `make build` makes it, with Rust's cargo on the PATH.")
    built = output(target / "ucudnn", "--version").split()[-1]
    if built != version():
        sys.exit(f"dist: {target} is of version {built}, and these files are of {version()}. `make build` makes it anew.")


def put_solver(layout, target, put_libraries):
    """Puts the solver in place; `put_libraries` does so with GLPK, for a solver and a layout."""
    check_built(target, [SOLVER, "ucudnn", "licences-solver/README"])
    layout.put(target / SOLVER, f"lib/{SOLVER}", strip=STRIP_LIBRARY)
    put_libraries(target / SOLVER, layout)
    layout.put(ROOT / "solver/LICENSE-GPL", f"{DOC}/LICENSE-GPL.libucudnn_solver")
    put_crates(target, layout, "-solver")


def lay_out(layout, target):
    """Puts everything but the solver in place."""
    check_built(target, BUILT)
    layout.put(target / "libucudnn.so", "lib/libucudnn.so", strip=STRIP_LIBRARY)
    layout.put(target / "ucudnn", "bin/ucudnn", 0o755, strip=["strip"])
    for name in ("libcudnn.so", "libcudnn.so.9"):
        layout.link("../libucudnn.so", f"lib/ucudnn/{name}")
    layout.put(ROOT / "include/ucudnn.h", "include/ucudnn.h")
    layout.write(PKG_CONFIG.format(version=version()), "lib/pkgconfig/ucudnn.pc")
    put_shell(target / "ucudnn", layout)
    for name in ("networks", "devices"):
        for file in (ROOT / "examples" / name).iterdir():
            layout.put(file, f"share/ucudnn/{name}/{file.name}")
    for name in ("README.md", "LICENSE-MIT", "LICENSE-APACHE"):
        layout.put(ROOT / name, f"{DOC}/{name}")
    for page in (ROOT / "docs").iterdir():
        layout.put(page, f"{DOC}/docs/{page.name}")
    put_crates(target, layout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=pathlib.Path, required=True, help="cargo's folder of what was built")
    parser.add_argument("--into", type=pathlib.Path, required=True, help="the folder to lay it out in")
    parser.add_argument("--list", action="store_true", help="leave the list by which uninstall.py removes the files")
    options = parser.parse_args()
    layout = Layout(options.into)
    lay_out(layout, options.target)
    put_solver(layout, options.target, put_libraries)
    if options.list:
        uninstall.leave_list(layout)


if __name__ == "__main__":
    main()
