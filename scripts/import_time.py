"""How much longer `import torch` takes with the wheel installed, and nothing else of the library.

    python3 scripts/import_time.py WHEEL [--python PYTHON] [--rounds N]

The wheel's entry point of torch.backends is all that an import sees of it. Each round calls these entry points without
the wheel and with it, in new processes, as the import does at its end. The rest of an import takes a second, and its
scatter is more than what is looked for. The command ends with 1 if the median is more than five milliseconds above.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import zipfile

# The most milliseconds more.
MOST = 5.0
PROGRAM = """
import time
import torch
begin = time.perf_counter()
torch._import_device_backends()
print(1e3 * (time.perf_counter() - begin))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable, help="one with PyTorch [this one]")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(options.wheel).extractall(folder)
        variables = {name: value for name, value in os.environ.items() if not name.startswith("UCUDNN_")}
        variables["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        kinds = {"without": variables, "with": variables | {"PYTHONPATH": folder}}
        times = {kind: [] for kind in kinds}
        # The first of each compiles bytecode.
        for number in range(options.rounds + 1):
            for kind, environment in kinds.items():
                ran = subprocess.run([options.python, "-W", "ignore", "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
                if number:
                    times[kind].append(float(ran.stdout))
    without, with_it = (statistics.median(times[kind]) for kind in kinds)
    print(f"entry points of torch.backends: {without:.1f} ms without the wheel, {with_it:.1f} with it, medians of {options.rounds}")
    more = with_it - without
    return more > MOST


if __name__ == "__main__":
    sys.exit(main())
