"""The command `ucudnn`, also as `python -m ucudnn`."""

import os
import sys

from . import command


def main() -> None:
    # The command looks for packages, such as PyTorch's cuDNN, in the Python below whose folder `bin` it was started.
    name = os.path.join(sys.prefix, "bin", "ucudnn")
    try:
        os.execv(command(), [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"ucudnn: {command()} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
