#!/bin/bash
# gpu_pytorch.sh SHIM OUT_DIR [SECONDS [OPTION...]]: PyTorch's training steps plain and under SHIM (libucudnn.so) on this
# machine's NVIDIA GPU, in turns, for at most SECONDS [600]; then the table, OUT_DIR/table.txt and table.svg. The same command
# again goes on where it stopped. OPTIONs are table.py's (examples/pytorch/table.py --help), as --only 'resnet50/*'.
#
# Needs a PyTorch that sees the GPU, and nothing else to be running there: memory is counted for the device as a whole.
# PYTHON  a Python with PyTorch [the first on the PATH that has one]
set -uo pipefail

usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

[[ $# -ge 2 && $1 != -* && $2 != -* ]] || usage
shim=$1 out=$2 seconds=${3:-600}
shift $(($# < 3 ? $# : 3))
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "gpu_pytorch: SECONDS is '$seconds', which is not a whole number above 0" >&2; exit 2; }
shim=$(realpath -e "$shim") || exit 2
mkdir -p "$out" && out=$(realpath "$out") || exit 2

candidates() {
    if [[ -n ${PYTHON:-} ]]; then
        echo "$PYTHON"
    else
        compgen -c python3 | grep -xE 'python3(\.[0-9]+)?' | sort -u
        type -P python
    fi
}

python= tried=()
while read -r candidate; do
    if seen=$("$candidate" -W ignore -c 'import torch; print(torch.cuda.is_available())' 2>&1) && [[ $seen = *True ]]; then
        python=$candidate
        break
    fi
    [[ $seen != *False ]] || seen="its PyTorch sees no GPU"
    tried+=("$candidate: $(tail -n 1 <<<"$seen")")
done < <(candidates)
if [[ -z $python ]]; then
    echo "gpu_pytorch: no Python whose PyTorch sees a GPU; set PYTHON. Tried:" >&2
    printf '  %s\n' "${tried[@]:-none}" >&2
    exit 1
fi
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv >"$out/gpu.txt" 2>&1
echo "gpu_pytorch: $("$python" -c 'import sys, torch; print(sys.executable, "PyTorch", torch.__version__)'); $(tail -n 1 "$out/gpu.txt")" >&2
exec "$python" -B -W ignore "$(dirname "$0")/../examples/pytorch/table.py" --shim "$shim" --out "$out" --seconds "$seconds" "$@"
