"""Programs that use cuDNN, unchanged and faster: convolutions, recurrent networks, batch norm; and dynamic nets.

The package brings the library, the command `ucudnn` and the header. It changes nothing when it is imported: a program
runs with the library by `ucudnn run`. Dynamic nets are modules of PyTorch: `VertexNet` computes a function at each
vertex of `Graphs`, and `ucudnn.nn` has ready ones.
"""

from __future__ import annotations

import importlib
import os.path
from typing import TYPE_CHECKING, Any

from ._library import NotSupported, Refused

try:
    from .version import __version__
except ImportError:  # a checkout: the wheel has the version
    __version__ = "0"

__all__ = ["Adam", "AdamW", "Batch", "Graphs", "Loader", "Momentum", "NotSupported", "Optimizer", "Refused", "StaticBatch",
           "Value", "Vertex", "VertexNet", "__version__", "command", "include", "library", "nn", "pkgconfig"]  # fmt: skip

if TYPE_CHECKING:
    from . import nn
    from .graphs import Batch, Graphs, StaticBatch
    from .loader import Loader
    from .net import VertexNet
    from .optimizers import Adam, AdamW, Momentum, Optimizer
    from .vertex import Value, Vertex

# A module that needs torch, or is seldom needed, is imported at its first use.
_LATER = {"Adam": "optimizers", "AdamW": "optimizers", "Batch": "graphs", "Graphs": "graphs", "Loader": "loader",
          "Momentum": "optimizers", "Optimizer": "optimizers", "StaticBatch": "graphs", "Value": "vertex", "Vertex": "vertex",
          "VertexNet": "net"}  # fmt: skip

_HERE = os.path.dirname(os.path.abspath(__file__))


def __getattr__(name: str) -> Any:
    if name == "nn":
        return importlib.import_module(".nn", __name__)
    if name in _LATER:
        return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def library() -> str:
    """The path of libucudnn.so, for LD_PRELOAD."""
    return os.path.join(_HERE, "lib", "libucudnn.so")


def command() -> str:
    """The path of the command's program, which starts without Python."""
    return os.path.join(_HERE, "bin", "ucudnn")


def include() -> str:
    """The folder of ucudnn.h."""
    return os.path.join(_HERE, "include")


def pkgconfig() -> str:
    """The folder for PKG_CONFIG_PATH: `pkg-config --cflags --libs ucudnn` then gives a compiler's flags."""
    return os.path.join(_HERE, "lib", "pkgconfig")
