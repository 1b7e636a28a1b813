"""This machine's GPU, cuDNN and Python with PyTorch, and the files to check."""

import glob
import os
import pathlib
import shutil
import subprocess
import sys

from harness import arguments, children, cudnn, variables
from harness.arguments import above_zero, count
from harness.children import last_line

PYTHONS = ("python3", "python", *(f"python3.{minor}" for minor in range(10, 20)))
PROGRAMS, PYTORCH = pathlib.Path(__file__).parent / "programs", cudnn.ROOT / "examples/pytorch"
ARGUMENTS = {
    "library": dict(help="libucudnn.so [%(default)s]", default="target/release/libucudnn.so"),
    "convnet": dict(help="the program of examples/convnet.c [%(default)s]", default="build/convnet"),
    "bench": dict(help="the program of examples/rnn_bench.c [%(default)s]", default="build/rnn_bench"),
    "command": dict(help="the ucudnn command [beside the library]"),
    "out": dict(help="folder of the results [%(default)s]"),
    "seconds": dict(type=above_zero, help="the time for everything [%(default)s]"),
    "runs": dict(type=count, help="repeated runs of each network [10000; with --host 20]"),
    "python": dict(help="a Python with PyTorch [this one, or the first on the PATH]"),
    "cudnn": dict(help="folder of libcudnn.so.9 [the loader's, or a Python package's]"),
    "host": dict(action="store_true", help="on hostdnn, at tiny sizes, to try the command itself without a GPU"),
}  # fmt: skip


def add_arguments(parser, *names, **defaults):
    """Adds arguments of ARGUMENTS, some with a default of this subcommand."""
    changes = {name: {"default": value} for name, value in defaults.items()}
    arguments.add(parser, *names, known=ARGUMENTS, **changes)


def add_parts(parser, parts, more=()):
    """What some parts of a subcommand can be chosen by. `more` has parts that run only if they are named."""
    default = f"all but {' and '.join(more)}" if more else "all"
    parser.add_argument("--parts", type=arguments.some_of((*parts, *more), "part"), default=list(parts),
                        help=f"some of {','.join((*parts, *more))}, in this order [{default}]")  # fmt: skip


def prepare(options):
    """Checks that there is a GPU, and the files; ends the program with one line and 2 if not."""
    options.host = "host" in options and options.host
    options.device = "cpu" if options.host else "cuda"
    options.gpu = "hostdnn, on the CPU" if options.host else gpu()
    for name in {"library", "convnet", "bench"} & vars(options).keys():
        path = pathlib.Path(getattr(options, name))
        if not path.is_file():
            stop(f"--{name} {path}: no such file")
        setattr(options, name, path.resolve())
    if "out" in options:
        options.out = pathlib.Path(options.out).resolve()
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu.txt").write_text(options.gpu + "\n")


def stop(words):
    print(f"gpu: {words}", file=sys.stderr)
    sys.exit(2)


def gpu():
    """Name, driver and memory."""
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        seen = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        stop(f"no NVIDIA GPU here: {error.filename}: {error.strerror}")
    if seen.returncode or not seen.stdout.strip():
        stop(f"no NVIDIA GPU here: {last_line(seen.stdout)}")
    return seen.stdout.strip()


def cudnn_folder(options):
    """The folder of the cuDNN to use; "" if the loader finds it, None for hostdnn."""
    if options.cudnn:
        return options.cudnn
    folder = None if options.host else cudnn.find()
    if folder is None and not options.host:
        stop("no libcudnn.so.9, neither by the loader nor among the Python packages: --cudnn FOLDER")
    return folder


def environment(**others):
    """This process's variables and others. Programs in Python find harness and ucudnn."""
    own = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    folders = ":".join([*(str(cudnn.ROOT / name) for name in ("examples", "python")), *own])
    return os.environ | {"PYTHONPATH": folders} | {name: str(value) for name, value in others.items()}


def torch_environment(**others):
    """The same for PyTorch, which brings its libraries: those of the loader's path must not come first."""
    given = environment(**others)
    given.pop("LD_LIBRARY_PATH", None)
    return given


def ours(options, report, **others):
    """The variables of a run under the library, which writes a new report."""
    report.unlink(missing_ok=True)
    return variables.preloaded(options.library, report, **others)


def setting(others):
    """What comes before a command to give it variables, where a tool before that is to run without them."""
    return ["env", *(f"{name}={value}" for name, value in others.items())]


def sanitizer():
    """compute-sanitizer: on the PATH, or the newest toolkit's; None if there is none."""
    installed = sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer"))
    return shutil.which("compute-sanitizer") or next(reversed(installed), None)


def is_clean(said):
    """Whether compute-sanitizer found nothing, by what it said."""
    return "ERROR SUMMARY: 0 errors" in said or "RACECHECK SUMMARY: 0 hazards" in said


def program(name, *words, python=sys.executable, folder=PROGRAMS):
    """The command of one of the programs, or of a script in examples/pytorch (PYTORCH)."""
    return children.python(folder / f"{name}.py", *words, by=python)


def python_with_torch(options):
    """A Python whose PyTorch sees the GPU, or with --host any PyTorch; None and the reason if there is none."""
    tried, found = [], [sys.executable, *filter(None, map(shutil.which, PYTHONS))]
    for candidate in dict.fromkeys([options.python] if options.python else found):
        look = [candidate, "-W", "ignore", "-c", "import torch; print(torch.cuda.is_available())"]
        try:
            seen = subprocess.run(look, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as error:
            tried.append(f"{candidate}: {error.strerror}")
            continue
        said = last_line(seen.stdout)
        if seen.returncode == 0 and (options.host or said == "True"):
            return candidate, None
        tried.append(f"{candidate}: {said if seen.returncode else 'its PyTorch sees no GPU'}")
    return None, f"no Python whose PyTorch {'runs' if options.host else 'sees a GPU'}: {'; '.join(tried)}"


def required_torch(options):
    python, why = python_with_torch(options)
    return python or stop(f"{why}: --python PYTHON")
