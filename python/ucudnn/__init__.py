"""cuDNN's convolutions in micro-batches, and recurrent networks on persistent GPU kernels.

The package brings the library, the command `ucudnn` and the header. It changes nothing when it is imported: a program
runs with the library by `ucudnn run`.
"""

import os.path

from .version import __version__

__all__ = ["__version__", "command", "include", "library", "pkgconfig"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def library():
    """The path of libucudnn.so, for LD_PRELOAD."""
    return os.path.join(_HERE, "lib", "libucudnn.so")


def command():
    """The path of the command's program, which starts without Python."""
    return os.path.join(_HERE, "bin", "ucudnn")


def include():
    """The folder of ucudnn.h."""
    return os.path.join(_HERE, "include")


def pkgconfig():
    """The folder for PKG_CONFIG_PATH: `pkg-config --cflags --libs ucudnn` then gives a compiler's flags."""
    return os.path.join(_HERE, "lib", "pkgconfig")
