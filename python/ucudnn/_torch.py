"""PyTorch's own operators on the library's kernels, in programs that do not preload the library.

`import torch` calls `replace_operators`, an entry point of `torch.backends` (TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns all of
these off). Installing the package changes nothing by itself: UCUDNN_TORCH must say `auto` or `force`.
"""

import os


def replace_operators():
    """Loads the library and puts its kernels in the place of PyTorch's, if UCUDNN_TORCH asks for it. Raises nothing:
    that would end every program that imports torch."""
    if os.environ.get("UCUDNN_TORCH") not in ("auto", "force"):
        return
    try:
        from . import _library

        _library.replace_torch_operators()
    except Exception as error:  # noqa: BLE001
        import sys

        print(f"ucudnn: PyTorch's operators stay as they are: {error}", file=sys.stderr)
