#!/bin/bash
# gpu.sh SHIM CONVNET [--division] [--host]: what libucudnn.so does on this machine's NVIDIA GPU, in one table, in under 9
# minutes. Takes finished files, so it needs no compiler: libucudnn.so, and convnet (`make build/convnet`).
# Also needs a cuDNN 9 (the system's, or one among the Python packages), and for the PyTorch checks a
# PyTorch; what is missing is said, and skipped.
#
# --division compares Workspace Division with Reuse at equal peaks, and nothing else; its solver lies beside SHIM.
#
# --host runs the same on hostdnn, to try the script itself where there is no GPU.
# OUT      where everything is written      [build/gpu]
# PYTHON   a Python, with PyTorch if wanted [python3]
# CUDNN    folder of libcudnn.so.9          [searched for]
# SECONDS_IN_ALL  after which no new run begins [440]
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

usage() {
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

host=
division=
files=()
for argument in "$@"; do
    case $argument in
        --host) host=1 ;;
        --division) division=1 ;;
        -*) usage ;;
        *) files+=("$argument") ;;
    esac
done
[[ ${#files[@]} -eq 2 ]] || usage
shim=$(realpath -e "${files[0]}") && convnet=$(realpath -e "${files[1]}") || exit 2
out=${OUT:-build/gpu}
python=${PYTHON:-python3}
last=${SECONDS_IN_ALL:-440}
mkdir -p "$out"
out=$(realpath "$out")
: >"$out/checks.txt"
rm -f "$out"/runs.txt "$out"/*.json "$out"/*.jsonl "$out"/*.log
SECONDS=0

say() { echo "gpu: $* (at $SECONDS s)" >&2; }
# One line of the summary: verdict, what was checked, what was seen.
verdict() { printf '%-8s %s: %s\n' "$1" "$2" "$3" | tee -a "$out/checks.txt" >&2; }
# Seconds that a run may take, at most $1: the whole ends 60 s behind the last beginning.
allowed() {
    local left=$((last + 60 - SECONDS))
    echo $((left < $1 ? (left > 1 ? left : 1) : $1))
}

# Folders of cuDNN and of what it loads, for LD_LIBRARY_PATH; empty where the loader needs no help.
cudnn_path() {
    [[ -z ${CUDNN:-} ]] || { echo "$CUDNN"; return; }
    [[ -z $host ]] || { realpath -e build/hostdnn; return; }
    "$python" - <<'PYTHON'
import ctypes, glob, os, site, sys
folders = []
for packages in dict.fromkeys([*sys.path, *site.getsitepackages(), site.getusersitepackages()]):
    if glob.glob(os.path.join(packages, "nvidia/cudnn/lib/libcudnn.so.9")):
        folders = [os.path.join(packages, "nvidia/cudnn/lib")]
        folders += sorted(f for f in glob.glob(os.path.join(packages, "nvidia/*/lib")) if f not in folders)
        break
else:
    try:
        ctypes.CDLL("libcudnn.so.9")
    except OSError:
        sys.exit("gpu: no libcudnn.so.9, neither by the loader nor among the Python packages; set CUDNN")
print(":".join(folders))
PYTHON
}

if [[ -z $host ]]; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >"$out/gpu.txt" 2>&1 ||
        { echo "gpu: no NVIDIA GPU here: $(head -n 1 "$out/gpu.txt")" >&2; exit 1; }
else
    echo "hostdnn, on the CPU" >"$out/gpu.txt"
fi
path=$(cudnn_path) || exit 1
export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export UCUDNN_TUNE_SECONDS=${UCUDNN_TUNE_SECONDS:-2}
export UCUDNN_DATABASE=${UCUDNN_DATABASE:-off}
say "$(cat "$out/gpu.txt"); cuDNN in ${path:-a folder of the loader}"

# batch NAME: images in a mini-batch.
batch() {
    case $1$host in
        alexnet) echo 256 ;;
        vgg16) echo 32 ;;
        resnet18) echo 128 ;;
        *) echo 2 ;;
    esac
}
iterations=${host:+1}
iterations=${iterations:-10}

# options KIND: convnet's, for a kind of arithmetic as the table names it. Programs ask for tensor cores
# with half; float by cuDNN's default runs some algorithms on them, in TF32, and others not.
options() {
    case $1 in
        float) echo --type float --math default ;;
        fma) echo --type float --math fma ;;
        half) echo --type half --math tensor-op ;;
    esac
}

# --- The outputs, micro-batch against whole, on a short run of each kind of arithmetic.
check_outputs() {
    local type=$1 name=check-$1 report=$out/check-$1.jsonl
    local count=32
    [[ -z $host ]] || count=4
    say "outputs are checked: alexnet, $type"
    if ! LD_PRELOAD=$shim UCUDNN_CHECK=1 UCUDNN_REPORT=$report UCUDNN_WORKSPACE_LIMIT=16MiB timeout "$(allowed 60)" \
        "$convnet" --limit 16MiB --batch "$count" $(options "$type") --iterations 1 examples/networks/alexnet.csv \
        >"$out/$name.log" 2>&1; then
        verdict WRONG "UCUDNN_CHECK, $type" "convnet ended with an error: $(tail -n 1 "$out/$name.log")"
        return
    fi
    local seen right=ok
    seen=$("$python" -B scripts/gpu_table.py checked "$report") || right=WRONG
    verdict $right "UCUDNN_CHECK, $type" "$seen"
}

# --- PyTorch: the same version, right convolutions, captured graphs.
check_torch() {
    local device=cuda with plain
    [[ -z $host ]] || device=cpu
    if ! "$python" -c 'import torch' 2>/dev/null; then
        verdict skipped PyTorch "$python has no PyTorch"
        return
    fi
    if [[ $device = cuda ]] && ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
        verdict skipped PyTorch "it sees no GPU"
        return
    fi
    if ((SECONDS >= last)); then
        verdict skipped PyTorch "no time left"
        return
    fi
    say "PyTorch, plain and preloaded"
    # Its own folders alone: PyTorch brings its libraries.
    (unset LD_LIBRARY_PATH; timeout "$(allowed 60)" "$python" -W ignore scripts/gpu_torch.py $device) \
        >"$out/torch-plain.log" 2>&1
    (unset LD_LIBRARY_PATH; LD_PRELOAD=$shim timeout "$(allowed 60)" "$python" -W ignore scripts/gpu_torch.py $device) \
        >"$out/torch-with.log" 2>&1
    plain=$(grep ^version "$out/torch-plain.log") with=$(grep ^version "$out/torch-with.log")
    if [[ -n $with && $plain = "$with" ]] && grep -q '^mapped True' "$out/torch-with.log"; then
        verdict ok "PyTorch's versions" "${with#version }"
    else
        verdict WRONG "PyTorch's versions" "plain '$plain', preloaded '$with': $(tail -n 1 "$out/torch-with.log")"
        return
    fi
    local wrong right
    wrong=$(grep -c '^convolution WRONG' "$out/torch-with.log") right=$(grep -c '^convolution right' "$out/torch-with.log")
    if ((wrong == 0 && right == 8)); then
        verdict ok "PyTorch's convolutions (graph API)" "8 right against double precision"
    else
        verdict WRONG "PyTorch's convolutions (graph API)" "$right right, $wrong wrong; plain: $(
            grep -c '^convolution right' "$out/torch-plain.log") right; see $out/torch-with.log"
    fi
    [[ $device = cuda ]] || { verdict skipped "stream capture" "there is no GPU"; return; }
    if grep -q '^capture right' "$out/torch-with.log"; then
        verdict ok "stream capture" "$(grep ^capture "$out/torch-with.log")"
    else
        verdict WRONG "stream capture" "plain: $(grep ^capture "$out/torch-plain.log"); preloaded: $(
            tail -n 1 "$out/torch-with.log")"
    fi
}

# --- Networks. one NAME TYPE FORMAT LIMIT KIND: a run, its report in $out.
one() {
    local network=$1 type=$2 format=$3 limit=$4 kind=$5
    local report=$out/$network-$type-$format-$limit-$kind
    local variables=()
    if [[ $kind = with ]]; then
        variables=(LD_PRELOAD="$shim" UCUDNN_REPORT="$report.jsonl" UCUDNN_LOG=info)
        [[ $limit = none ]] || variables+=(UCUDNN_WORKSPACE_LIMIT="$limit")
    fi
    env "${variables[@]}" timeout "$(allowed 90)" "$convnet" --limit "$limit" --batch "$(batch "$network")" \
        $(options "$type") --format "$format" --iterations "$iterations" --warmup 2 --json "$report.json" \
        "examples/networks/$network.csv" >"$report.log" 2>&1
    local status=$?
    ((status == 0)) || { rm -f "$report.json"; verdict WRONG "${report##*/}" "ended with $status: $(tail -n 1 "$report.log")"; }
}

networks() {
    local limit network type format skipped=()
    # What matters most first: time may be short.
    for limit in 16MiB none 64MiB 4MiB; do
        for network in alexnet resnet18 vgg16; do
            for type in float fma half; do
                for format in nchw nhwc; do
                    if ((SECONDS >= last)); then
                        skipped+=("$network/$type/$format/$limit")
                        continue
                    fi
                    say "$network, $type, $format, limit $limit"
                    one $network $type $format $limit plain
                    one $network $type $format $limit with
                    echo "$network $type $format $limit" >>"$out/runs.txt"
                done
            done
        done
    done
    ((${#skipped[@]} == 0)) || verdict skipped "${#skipped[@]} runs for want of time" "${skipped[*]}"
}

# --- One total for all layers: NETWORK BATCH TYPE TOTAL, each in a table and a JSON file.
divide() {
    local network=$1 batch=${host:+2} type=$3 total=$4
    local name=division-$network-$type
    if ((SECONDS >= last)); then
        verdict skipped "$name" "no time left"
        return
    fi
    say "Workspace Division: $network, $type, $total in all"
    local options=(--target "$(dirname "$shim")" --convnet "$convnet" --network "$network" --type "$type"
        --batch "${batch:-$2}" --total "$total" --iterations "$iterations" --output "$out/$name")
    [[ $type != half ]] || options+=(--math tensor-op)
    [[ -z $path ]] || options+=(--cudnn "${path%%:*}")
    if timeout "$(allowed 240)" "$python" -B scripts/division.py "${options[@]}" >"$out/$name.txt" 2>"$out/$name.log"; then
        mv "$out/$name/$network.json" "$out/$name.json"
        mv "$out/$name/division.jsonl" "$out/$name.jsonl"
        cat "$out/$name.txt"
    else
        verdict WRONG "$name" "$(tail -n 1 "$out/$name.log")"
    fi
    rm -rf "${out:?}/$name"
}

if [[ -n $division ]]; then
    divide alexnet 256 float 120MiB
    divide resnet18 64 half 256MiB
    divide resnet50 32 float 512MiB
    say "everything is in $out"
    exit
fi

check_torch
check_outputs float
check_outputs fma
check_outputs half
networks
[[ -e $out/runs.txt ]] || : >"$out/runs.txt"
"$python" -B scripts/gpu_table.py table "$out" | tee "$out/table.txt"
say "everything is in $out"
