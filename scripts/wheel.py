"""Packs three Python wheels: the package `ucudnn` of python/, with dist.py's layout inside it; `ucudnn_glpk`, the solver
with GLPK, which is the extra `ucudnn[glpk]` and has GLPK's licence; and `ucudnn_demo`, what `ucudnn demo` runs, which is the
extra `ucudnn[demo]`. The extras put their files into ucudnn's folder.

All parts but the manual pages lie in the package's own folder, because pip puts that in place whole: in a virtual
environment, for a user alone (--user), or in any folder (--target). pip makes the command `ucudnn` from the wheel's entry
point, and puts the manual pages where `man` looks for those of the commands beside it.

The wheel's tag names a glibc. It is at least the one that zig builds for, and later if a file needs later symbols.
"""

import argparse
import base64
import fcntl
import hashlib
import pathlib
import re
import sys
import tempfile
import zipfile

import dist
import glpk
from check_symbols import LOADER, SYSTEM, dynamic, exports, output

PYTHON = dist.ROOT / "python/ucudnn"
# Parts of glibc that glibc 2.34 moved into libc.so.6. Later versions still have the files.
MOVED = {"libdl.so.2", "libpthread.so.0"}
# The earliest time that a zip archive can hold: the same files make the same wheel.
LONG_AGO = (1980, 1, 1, 0, 0, 0)

METADATA = """\
Metadata-Version: 2.4
Name: ucudnn
Version: {version}
Summary: Programs that use cuDNN, unchanged and faster: convolutions, recurrent networks, batch norm; and dynamic nets
Author: The ucudnn authors
License-Expression: (MIT OR Apache-2.0) AND ISC AND Zlib AND Apache-2.0 WITH LLVM-exception
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
Requires-Python: >=3.10
Provides-Extra: demo
Requires-Dist: ucudnn-demo == {version}; extra == "demo"
Provides-Extra: glpk
Requires-Dist: ucudnn-glpk == {version}; extra == "glpk"
Keywords: cuDNN,CUDA,convolution,LSTM,GRU,PyTorch,micro-batch,workspace
Project-URL: Paper on micro-batches, https://arxiv.org/abs/1804.04806
Project-URL: Paper on recurrent networks, https://doi.org/10.1145/3302424.3303949
Project-URL: Paper on dynamic nets, https://www.usenix.org/conference/atc18/presentation/xu-shizen
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Rust
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""

GLPK_METADATA = """\
Metadata-Version: 2.4
Name: ucudnn-glpk
Version: {version}
Summary: GLPK for ucudnn: the best division of one workspace over a very large network
Author: The ucudnn authors
License-Expression: GPL-3.0-or-later
License-File: solver/LICENSE-GPL
Requires-Python: >=3.10
Requires-Dist: ucudnn == {version}
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

The extra `ucudnn[glpk]`: it finds the best division of one workspace for networks that are too large for the library's own
exact method.
"""

DEMO_METADATA = """\
Metadata-Version: 2.4
Name: ucudnn-demo
Version: {version}
Summary: What ucudnn demo runs: a network's training, and a cuDNN that computes on the CPU
Author: The ucudnn authors
License-Expression: (MIT OR Apache-2.0) AND MIT AND ISC AND Apache-2.0 WITH LLVM-exception
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
Requires-Python: >=3.10
Requires-Dist: ucudnn == {version}
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

The extra `ucudnn[demo]`: `ucudnn demo` then trains AlexNet's convolutions with and without the library, on the GPU or, where
there is none, on hostdnn, which computes on the CPU; and shows in a table and on a page what the library gains.
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: ucudnn's scripts/wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""

# A wheel holds no links. A linker takes this text for the library that it names, and finds that beside the folder.
LINKER_SCRIPT = "/* libucudnn.so under cuDNN's name, for linkers */\nINPUT(-lucudnn)\n"

GLPK = """\
{soname} is GLPK 5.0, unchanged, without GNU MP. It was built by scripts/glpk.py from the source distribution of PyPI's
package {requirement}, which contains GLPK's source. Its licence: glpk/COPYING.
"""
UNWINDER = """\
The command contains LLVM's unwinder, which zig links (Apache-2.0 with the LLVM exception).
"""
# What `ucudnn demo` runs lies below this folder as it does below the repository.
DEMO = "lib/ucudnn/demo"
DEMO_SCRIPTS = ("demo", "progress", "turns")
DEMO_HARNESS = ("__init__", "arguments", "children", "columns", "cudnn", "results", "rounds", "variables")


def elf_files(folder):
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink())
    return [file for file in files if file.read_bytes()[:4] == b"\x7fELF"]


def needed_glibc(file):
    """The latest version of glibc whose symbols a file needs, as (major, minor)."""
    versions = re.findall(r"Name: (GLIBC_\S+)", output("readelf", "--version-info", "--wide", file))
    numbers = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version) for version in versions]
    if not all(numbers):
        sys.exit(f"wheel: {file} needs {versions}, and not all of these are plain versions of glibc")
    return max(((int(number[1]), int(number[2])) for number in numbers), default=(0, 0))


def check_needs(files):
    """Ends the process if a file needs a library or a function that neither the wheel nor every Linux system has."""
    shipped = {file.name for file in files}
    defined = {name for file in files for name in exports(file)}
    for file in files:
        # zig's glibc gives a version to each function that it has. A later glibc's function stays without one, and
        # linking a library does not fail for that.
        undefined = re.findall(r"^\s+U ([^@\s]+)$", output("nm", "--dynamic", "--undefined-only", file), re.M)
        if stray := set(undefined) - defined:
            sys.exit(f"wheel: {file.name} needs {' '.join(sorted(stray))}, which nothing that it is linked with defines")
        stray = {name for name in dynamic(file, "NEEDED") if not LOADER.fullmatch(name)} - SYSTEM - MOVED - shipped
        if stray:
            sys.exit(f"wheel: {file.name} needs {' '.join(sorted(stray))}, which the wheel does not have")


def tag(files, glibc):
    """The tag that is true for these files, which were built for this version of glibc or a later one."""
    machines = {re.search(r"Machine:\s+(.*)", output("readelf", "--file-header", file))[1] for file in files}
    names = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
    if len(machines) != 1 or not machines <= set(names):
        sys.exit(f"wheel: its files are for {' and '.join(sorted(machines)) or 'no machine'}, and not for one of "
                 f"{' or '.join(names)}")
    major, minor = max([glibc, *(needed_glibc(file) for file in files)])
    return f"py3-none-manylinux_{major}_{minor}_{names[machines.pop()]}"


# `import torch` calls the entry points of torch.backends.
ENTRY_POINTS = """\
[console_scripts]
ucudnn = ucudnn.__main__:main

[torch.backends]
ucudnn = ucudnn._torch:replace_operators
"""


def put_glpk(folder):
    """Puts in place the GLPK that glpk.py built."""

    def put(_solver, layout):
        layout.put(folder / "lib" / glpk.SONAME, f"lib/ucudnn/{glpk.SONAME}", strip=dist.STRIP_LIBRARY)
        layout.put(folder / "COPYING", f"{dist.DOC}/libraries/glpk/COPYING")
        text = GLPK.format(soname=glpk.SONAME, requirement=glpk.requirement())
        layout.write(text + UNWINDER.replace("The command", dist.SOLVER), f"{dist.DOC}/libraries/README.glpk")

    return put


def put_demo(layout, options):
    """Puts in place what `ucudnn demo` runs. hostdnn has cuDNN's name there, as in the loader's eyes."""
    dist.check_built(options.target, ["libhostdnn.so", "ucudnn", "licences-demo/README"])
    scripts = [f"scripts/{name}.py" for name in DEMO_SCRIPTS] + [f"examples/harness/{name}.py" for name in DEMO_HARNESS]
    for file in [*scripts, "examples/networks/alexnet.csv"]:
        layout.put(dist.ROOT / file, f"{DEMO}/{file}")
    layout.put(options.convnet, f"{DEMO}/build/convnet", 0o755, strip=["strip"])
    layout.put(options.target / "libhostdnn.so", f"{DEMO}/build/hostdnn/libcudnn.so.9", strip=dist.STRIP_LIBRARY)
    dist.put_crates(options.target, layout, "-demo")
    layout.write(UNWINDER.replace("The command", "hostdnn"), f"{dist.DOC}/libraries/README.demo")


def fill(package, options):
    """Lays out the package's folder."""
    layout = dist.Layout(package)
    dist.lay_out(layout, options.target)
    for file in layout.files:
        if (package / file).is_symlink():
            layout.write(LINKER_SCRIPT, file)
    for file in [*PYTHON.glob("*.py"), PYTHON / "py.typed"]:
        layout.put(file, file.name)
    layout.write(f'__version__ = "{dist.version()}"\n', "version.py")
    layout.write(UNWINDER, f"{dist.DOC}/libraries/README")


def describe(information, wheel_tag, metadata, licences, more):
    """Writes the folder that tells pip about the wheel, but not its list of files."""
    layout = dist.Layout(information)
    layout.write(metadata, "METADATA")
    layout.write(WHEEL.format(tag=wheel_tag), "WHEEL")
    for name, text in more.items():
        layout.write(text, name)
    for source in licences:
        layout.put(dist.ROOT / source, f"licenses/{source}")


def pack(folder, record, wheel):
    """Packs the folder. `record` is the place of the list of files, which has each file's hash and size."""
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(place, content, mode):
            entry = zipfile.ZipInfo(place, LONG_AGO)
            entry.create_system = 3  # Unix, so that the mode counts
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)

        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            place, content = file.relative_to(folder).as_posix(), file.read_bytes()
            add(place, content, file.stat().st_mode & 0o777)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{place},sha256={digest},{len(content)}\n")
        add(record, "".join([*lines, f"{record},,\n"]), 0o644)


def make(content, name, options, metadata, licences, **more):
    """Packs what the folder has as the wheel of this name."""
    files = elf_files(content)
    wheel_tag = tag(files, tuple(map(int, options.glibc.split("."))))
    full = f"{name}-{dist.version()}"
    describe(content / f"{full}.dist-info", wheel_tag, metadata, licences, more)
    options.into.mkdir(parents=True, exist_ok=True)
    wheel = options.into / f"{full}-{wheel_tag}.whl"
    # Under another name at first: whoever reads the wheel meanwhile finds the old one or the new one. Two builds may do so
    # at once.
    with open(options.into / f".{full}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        packed = wheel.with_suffix(".packing")
        pack(content, f"{full}.dist-info/RECORD", packed)
        packed.replace(wheel)
        for old in options.into.glob(f"{full}-*.whl"):
            if old != wheel:
                old.unlink()
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")


def make_all(content, glpk, demo, options):
    fill(content / "ucudnn", options)
    data = content / f"ucudnn-{dist.version()}.data/data/share"
    data.mkdir(parents=True)
    (content / "ucudnn/share/man").rename(data / "man")
    dist.put_solver(dist.Layout(glpk / "ucudnn"), options.target, put_glpk(options.glpk))
    put_demo(dist.Layout(demo / "ucudnn"), options)
    for folder in (content, glpk, demo):
        check_needs(elf_files(folder))
    of_version = lambda metadata: metadata.format(version=dist.version())
    make(content, "ucudnn", options, of_version(METADATA) + (dist.ROOT / "README.md").read_text(),
         ["LICENSE-MIT", "LICENSE-APACHE"], **{"entry_points.txt": ENTRY_POINTS})  # fmt: skip
    make(glpk, "ucudnn_glpk", options, of_version(GLPK_METADATA), ["solver/LICENSE-GPL"])
    make(demo, "ucudnn_demo", options, of_version(DEMO_METADATA), ["LICENSE-MIT", "LICENSE-APACHE"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=pathlib.Path, required=True, help="cargo's folder of what was built")
    parser.add_argument("--glpk", type=pathlib.Path, required=True, help="glpk.py's folder")
    parser.add_argument("--convnet", type=pathlib.Path, required=True, help="the program that the demo runs")
    parser.add_argument("--glibc", required=True, help="the glibc that all were built for, such as 2.28")
    parser.add_argument("--into", type=pathlib.Path, required=True, help="the folder for the wheels")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_all(*(pathlib.Path(folder) / name for name in ("ucudnn", "glpk", "demo")), options)


if __name__ == "__main__":
    main()
