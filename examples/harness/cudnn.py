"""Finds the cuDNN that a program loads: the GPU's, or hostdnn."""

import ctypes
import glob
import os
import pathlib
import site
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTDNN = ROOT / "build/hostdnn"


def has_gpu():
    return os.path.exists("/dev/nvidia0")


def find():
    """The folder of a cuDNN 9 for the GPU here, "" if the loader finds one itself, None without a GPU."""
    if not has_gpu():
        return None
    try:
        ctypes.CDLL("libcudnn.so.9")
        return ""
    except OSError:
        pass
    packages = [*sys.path, *site.getsitepackages(), site.getusersitepackages()]
    for folder in [*packages, str(ROOT / "build/real/lib/python3*/site-packages")]:
        for found in glob.glob(os.path.join(folder, "nvidia/cudnn/lib/libcudnn.so.9")):
            return os.path.dirname(found)
    return None


def library_path(folder):
    """LD_LIBRARY_PATH for the runs: the cuDNN to use first, then the caller's folders."""
    folder = HOSTDNN if folder is None else folder and pathlib.Path(folder).absolute()
    folders = [folder] if folder else []
    # cuDNN's Python package does not contain cuBLAS, which is in a package beside it.
    if folder and folder.match("nvidia/cudnn/lib"):
        folders += sorted(set(folder.parents[1].glob("*/lib")) - {folder})
    return ":".join(map(str, [*folders, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]))
