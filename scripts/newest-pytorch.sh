#!/bin/bash
# newest-pytorch.sh ARGUMENTS: the Python of build/pytorch-newest. CUDA's libraries that scripts/pytorch-newest.txt leaves
# out come from build/pytorch and build/real: importing PyTorch takes them, and without a GPU nothing calls them.
set -euo pipefail
root=$(dirname "$(realpath "$0")")/..
folders=
for name in pytorch real; do
    nvidia=$("$root/scripts/wheels.sh" $name)/nvidia
    folders+=$nvidia/cu13/lib:$nvidia/cusparselt/lib:
done
"$root/scripts/wheels.sh" pytorch-newest >/dev/null
LD_LIBRARY_PATH=$folders${LD_LIBRARY_PATH:-} exec "$root/build/pytorch-newest/bin/python" "$@"
