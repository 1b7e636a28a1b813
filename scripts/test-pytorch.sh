#!/bin/bash
# test-pytorch.sh BUILD: under the preloaded library, an unmodified PyTorch finds its own cuDNN through us and computes
# on the CPU as before. Needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
shim=$(realpath -e "$1/libucudnn.so")
scripts/wheels.sh pytorch >/dev/null
program='
import torch
print(torch.__version__, torch.backends.cudnn.version())
x = torch.ones(2, 3, 8, 8)
print(torch.nn.functional.conv2d(x, torch.ones(4, 3, 3, 3)).sum().item())
maps = open("/proc/self/maps").read()
print("libucudnn.so" in maps)
'
# compare PYTHON CUDNN: the program, plain and preloaded.
compare() {
    local python=$1 cudnn=$2 plain with
    plain=$("$python" -W ignore -c "$program")
    with=$(LD_PRELOAD=$shim "$python" -W ignore -c "$program")
    echo "PyTorch, its cuDNN, a sum, whether libucudnn.so is mapped:"
    echo "  plain:     " $plain
    echo "  preloaded: " $with
    if [[ $plain != *$cudnn*7776*False || $with != "${plain/False/True}" ]]; then
        echo "test-pytorch: expected the same with and without, and cuDNN $cudnn" >&2
        exit 1
    fi
    # The version above would be the same without us, so check that the call comes through us.
    LD_DEBUG=bindings LD_PRELOAD=$shim "$python" -W ignore -c "$program" 2>&1 >/dev/null |
        grep -c 'libtorch_cuda.so .* to .*libucudnn.so .*cudnnGetVersion' >/dev/null ||
        { echo "test-pytorch: PyTorch's cudnnGetVersion is not bound to $shim" >&2; exit 1; }
}
compare build/pytorch/bin/python 91900
compare scripts/newest-pytorch.sh 92600

# hostdnn's RNNs against PyTorch's on the CPU.
UCUDNN_TEST_PYTORCH=$PWD/build/pytorch/bin/python "${PYTHON:-python3}" -B scripts/run_tests.py hostdnn:tests:rnn::pytorch::

# The checks of RNNs on a GPU, here on hostdnn; and torch.nn's RNNs on the CPU.
python=$(realpath build/pytorch)/bin/python
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# on_host SUBCOMMAND [OPTION...]: a subcommand of gpu.py on hostdnn.
on_host() {
    local name=$1
    shift
    "$python" -B scripts/gpu.py "$name" --host --library "$shim" --out "$out/$name" "$@" >"$out/$name.log" 2>&1 ||
        { cat "$out/$name.log" >&2; exit 1; }
}
on_host rnn --seconds 240
if [[ $(grep -c '^ok ' "$out/rnn/checks.txt") -ne 4 ]]; then
    cat "$out/rnn.log" >&2
    echo "test-pytorch: expected repeated runs, rnn_bench and PyTorch to be checked" >&2
    exit 1
fi
grep '^ok ' "$out/rnn/checks.txt"

# PyTorch's own batch and group normalization on our kernels, which are emulated here.
on_host norm --parts errors,repeat,group-errors,group-repeat,group-times --runs 3
if [[ $(grep -c '^ok .*: our kernels: .* of .* passes' "$out/norm/checks.txt") -ne 5 ]]; then
    cat "$out/norm.log" >&2
    echo "test-pytorch: expected PyTorch's own normalizations to run on our kernels" >&2
    exit 1
fi
grep 'our kernels' "$out/norm/checks.txt"
# Its depthwise convolutions likewise; a CPU has none of PyTorch's own.
on_host depthwise
grep 'our engine' "$out/depthwise/checks.txt"
hostdnn=$(realpath -e "$1/libhostdnn.so")
# with_torch VALUE PYTHON PROGRAM [OPTION...]: one of scripts/gpu/programs on the CPU, preloaded, with this UCUDNN_TORCH.
with_torch() {
    local value=$1 interpreter=$2 name=$3
    shift 3
    UCUDNN_TORCH=$value UCUDNN_CUDNN_LIBRARY=$hostdnn UCUDNN_DATABASE=off UCUDNN_LOG=warn,ucudnn_torch=debug LD_PRELOAD=$shim \
        PYTHONPATH=examples "$interpreter" -B -W ignore "scripts/gpu/programs/$name.py" "$@" --device cpu
}
# What PyTorch refuses reaches the program through our frames.
for torch in off force; do
    with_torch $torch "$python" refused >"$out/refused-$torch.txt" 2>"$out/refused.log" || { cat "$out/refused.log" >&2; exit 1; }
done
diff "$out"/refused-{off,force}.txt
# The ways to batch and group normalization: each call that our kernels take runs on them, and none that Inductor has
# compiled.
for which in "batch 81" "group 35"; do
    name=${which% *}
    for torch in off force; do
        with_torch $torch "$python" "${name}_calls" --compiles >"$out/$name-$torch.txt" 2>&1 ||
            { cat "$out/$name-$torch.txt" >&2; exit 1; }
    done
    if grep -q 'on our kernels' "$out/$name-off.txt" ||
        [[ $(grep -c "$name normalization.*on our kernels" "$out/$name-force.txt") -ne ${which#* } ]]; then
        cat "$out/$name"-{off,force}.txt >&2
        echo "test-pytorch: expected $name normalization to run on our kernels where it is forced" >&2
        exit 1
    fi
done
# Those to the newest PyTorch's batch normalization, without Inductor.
with_torch force scripts/newest-pytorch.sh batch_calls >"$out/newest.txt" 2>&1 &&
    [[ $(grep -c 'batch normalization.*on our kernels' "$out/newest.txt") -eq 80 ]] || { cat "$out/newest.txt" >&2; exit 1; }
# In two processes under DistributedDataParallel: 6 passes of training and 2 of evaluation, in two types and on two ranks.
with_torch force "$python" batch_ranks >"$out/ranks.txt" 2>&1 &&
    [[ $(grep -c 'batch normalization.*on our kernels' "$out/ranks.txt") -eq 32 ]] || { cat "$out/ranks.txt" >&2; exit 1; }
# A kernel of a third library's stays.
for interpreter in "$python" scripts/newest-pytorch.sh; do
    with_torch force "$interpreter" other_kernels >"$out/other.txt" 2>&1 || { cat "$out/other.txt" >&2; exit 1; }
done
# On a CPU nothing changes unless that is forced, and nothing is said.
said=$(UCUDNN_CUDNN_LIBRARY=$hostdnn LD_PRELOAD=$shim PYTHONPATH=examples "$python" -W ignore scripts/gpu/programs/batch_norm.py errors --device cpu 2>&1 >/dev/null)
[[ -z $said ]] || { echo "test-pytorch: expected no words, found: $said" >&2; exit 1; }

# The table of training steps: its unit tests, and one cell on the CPU, interrupted and continued.
(cd examples/pytorch && "$python" -B -m unittest)
table() {
    "$python" -B -W ignore examples/pytorch/table.py --shim "$shim" --out "$out" --device cpu --rounds 1 \
        --only 'resnet18/nchw/float/off/eager/64MiB' "$@" 2>&1
}
table --seconds 3 >"$out/cut.txt"
table >"$out/whole.txt" || { cat "$out/whole.txt" >&2; exit 1; }
table >"$out/again.txt"
if [[ $(wc -l <"$out/results.jsonl") -ne 3 ]] || grep -q failed "$out/results.jsonl" ||
    ! grep -q '^  64MiB .* [0-9.]*  *[0-9.]*$' "$out/table.txt" || ! grep -q '3 runs are there, 0 to go' "$out/again.txt" ||
    ! grep -q '</svg>' "$out/table.svg"; then
    cat "$out"/{cut,whole,again}.txt >&2
    echo "test-pytorch: expected a table of plain in both layouts and 64MiB, and nothing to do once it is there" >&2
    exit 1
fi
grep -A 1 '^resnet18' "$out/table.txt"
