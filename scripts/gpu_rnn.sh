#!/bin/bash
# gpu_rnn.sh SHIM BENCH OUT [SECONDS] [--host]: what libucudnn.so does with recurrent networks on this machine's NVIDIA GPU, in
# about SECONDS [540], the most telling first. Takes finished files, so it needs no compiler: libucudnn.so, and rnn_bench
# (`make build/rnn_bench`). Also needs a cuDNN 9 (the system's, or one among the Python packages); PyTorch and
# compute-sanitizer where they are. OUT then holds
#   checks.txt   a line for each check: ok, WRONG, or skipped, and why
#   bench/       cuDNN's algorithms and ours in turns: table.txt, table.csv, table.svg (examples/rnn_bench/table.py); and
#                the model's first choices against the best of 24: exhaustive.txt
#   pytorch/     torch.nn.LSTM, GRU and RNN, plain and with us: rnn.txt, rnn.csv (examples/pytorch/rnn.py)
#   repeat.jsonl, sanitizer-*.log   repeated runs, bit by bit; memcheck, synccheck, racecheck
# The same command again goes on with the tables, and repeats the checks. Ends with 1 if anything is wrong.
#
# --host runs the same on hostdnn, at tiny sizes, to try the script itself where there is no GPU.
# PYTHON   a Python, with PyTorch if wanted [python3]
# CUDNN    folder of libcudnn.so.9          [searched for]
# RUNS     repeated runs of each network    [10000]
set -uo pipefail

usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

host= given=()
for argument in "$@"; do
    case $argument in
        --host) host=1 ;;
        -*) usage ;;
        *) given+=("$argument") ;;
    esac
done
[[ ${#given[@]} -eq 3 || ${#given[@]} -eq 4 ]] || usage
shim=$(realpath -e "${given[0]}") && bench=$(realpath -e "${given[1]}") || exit 2
mkdir -p "${given[2]}" && out=$(realpath "${given[2]}") || exit 2
seconds=${given[3]:-540}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "gpu_rnn: SECONDS is '$seconds', which is not a whole number above 0" >&2; exit 2; }
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
runs=${RUNS:-10000}
: >"$out/checks.txt"
: >"$out/repeat.jsonl"
SECONDS=0

say() { echo "gpu_rnn: $* (at $SECONDS s)" >&2; }
# One line of the summary: verdict, what was checked, what was seen.
verdict() { printf '%-8s %s: %s\n' "$1" "$2" "$3" | tee -a "$out/checks.txt" >&2; }
# What is left, at most $1, for one more thing; fails where there is none.
allowed() {
    local left=$((seconds - SECONDS))
    echo $((left < $1 ? left : $1))
    ((left > 1))
}

if [[ -z $host ]]; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >"$out/gpu.txt" 2>&1 ||
        { echo "gpu_rnn: no NVIDIA GPU here: $(head -n 1 "$out/gpu.txt")" >&2; exit 1; }
else
    echo "hostdnn, on the CPU" >"$out/gpu.txt"
    [[ -n ${CUDNN:-} ]] || CUDNN=$(realpath -e build/hostdnn) || exit 1
fi
# As the table's script finds it.
path=$("$python" -B -c 'import sys; sys.path.append("scripts"); import demo
print(demo.library_path(sys.argv[1] or demo.find_cudnn()))' "${CUDNN:-}") || exit 1
say "$(cat "$out/gpu.txt"); cuDNN in ${path:-a folder of the loader}"

# field NAME FILE: of the last line's JSON; nothing where there is none.
field() { "$python" -c 'import json, sys
value = json.loads(open(sys.argv[2]).readlines()[-1])
for name in sys.argv[1].split("."):
    value = value[name]
print(value)' "$1" "$2" 2>/dev/null; }

# ours RUNS STEPS NETWORK FILE [COMMAND...]: ours alone, by the model's first choice, under a command.
ours() {
    local count=$1 steps=$2 network=$3 file=$4
    shift 4
    # The command itself is to run without us.
    LD_LIBRARY_PATH=$path timeout "$(allowed 120)" "$@" env LD_PRELOAD="$shim" UCUDNN_RNN=force UCUDNN_RNN_TOP_K=1 \
        UCUDNN_DATABASE=off UCUDNN_REPORT="$out/ours.jsonl" "$bench" --repeat "$count" --steps "$steps" "$network" >"$file"
}

# --- The same bits each time, and right: networks of every size that has a kernel of its own kind.
repeated() {
    local network=$1 steps=$2 file=$out/repeat.json log=$out/repeat.log limit=$3
    allowed 1 >/dev/null || { verdict skipped "repeated runs, $network" "no time left"; return; }
    if ! ours "$runs" "$steps" "$network" "$file" 2>"$log"; then
        verdict WRONG "repeated runs, $network" "$(tail -n 1 "$log")"
        return
    fi
    cat "$file" >>"$out/repeat.jsonl"
    local different chosen error
    different=$(field different "$file") chosen=$(field decision.chosen "$file") error=$(field error "$file")
    local seen="$different of $runs runs differ, error $error, by $chosen"
    if [[ $different = 0 && -n $chosen && $chosen != cuDNN ]] &&
        "$python" -c 'import sys; sys.exit(not float(sys.argv[1]) <= float(sys.argv[2]))' "$error" "$limit"; then
        verdict ok "repeated runs, $network" "$seen"
    else
        verdict WRONG "repeated runs, $network" "$seen (error at most $limit)"
    fi
}

# --- Memory, barriers and shared memory, by compute-sanitizer, on a few steps.
sanitized() {
    local tool=$1 network=$2 log
    log=$out/sanitizer-$1-${2//\//-}.log
    allowed 1 >/dev/null || { verdict skipped "$tool, $network" "no time left"; return; }
    ours 3 4 "$network" "$out/sanitizer.json" "$sanitizer" --tool "$tool" --error-exitcode 99 --log-file "$log" 2>"$log.err"
    local status=$? chosen
    chosen=$(field decision.chosen "$out/sanitizer.json")
    if [[ $tool = racecheck && $chosen = cluster* ]] && ((status == 99)); then
        # It does not see that a block waits for what others store into its shared memory (with a barrier more behind
        # that wait it finds nothing).
        verdict skipped "$tool, $network" "it does not know what a cluster's blocks wait for: $chosen"
    elif ((status == 0)) && grep -q 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$log"; then
        verdict ok "$tool, $network" "$chosen"
    elif ((status == 124)); then
        verdict skipped "$tool, $network" "took too long"
    else
        verdict WRONG "$tool, $network" "ended with $status: $(tail -n 1 "$log") $(tail -n 1 "$log.err")"
    fi
}

# bench SECONDS [OPTION...]: the table goes on.
table() {
    local limit
    limit=$(allowed "$1") || { verdict skipped "rnn_bench" "no time left"; return; }
    shift
    say "cuDNN's algorithms and ours, $limit s"
    "$python" -B examples/rnn_bench/table.py --bench "$bench" --shim "$shim" --out "$out/bench" --seconds "$limit" \
        ${CUDNN:+--cudnn "$CUDNN"} "$@" >"$out/bench.log"
    if grep -q '^stream: ' "$out/bench.log"; then
        verdict ok "rnn_bench" "$(grep '^stream: ' "$out/bench.log")"
        [[ -n $host ]] || verdict ok "rnn_bench" "$(grep '^graph: ' "$out/bench.log")"
    else
        verdict WRONG "rnn_bench" "$(tail -n 1 "$out/bench.log")"
    fi
    ! grep '^failed: ' "$out/bench.log" || verdict WRONG "rnn_bench" "$(grep -c '^failed: ' "$out/bench.log") networks failed"
}

pytorch() {
    local limit device=cuda
    [[ -z $host ]] || device=cpu
    if ! "$python" -c 'import torch' 2>/dev/null; then
        verdict skipped PyTorch "$python has no PyTorch"
        return
    fi
    limit=$(allowed "$1") || { verdict skipped PyTorch "no time left"; return; }
    shift
    say "PyTorch, $limit s"
    mkdir -p "$out/pytorch"
    # Its own folders alone: PyTorch brings its libraries.
    if (unset LD_LIBRARY_PATH; exec "$python" -B -W ignore examples/pytorch/rnn.py --shim "$shim" --out "$out/pytorch" \
        --seconds "$limit" --device $device "$@") >"$out/pytorch.log"; then
        local told
        told=$(tail -n 1 "$out/pytorch.log")
        if [[ $told = *" 0 compared"* ]]; then verdict skipped PyTorch "$told"; else verdict ok PyTorch "$told"; fi
    else
        verdict WRONG PyTorch "$(tail -n 1 "$out/pytorch.log")"
    fi
}

if [[ -n $host ]]; then
    runs=${RUNS:-20}
    repeated lstm/float/20/3 3 1e-6
    repeated gru/half/20/3 3 2e-3
    table 60 --network lstm/float/20/3 --steps 4 --rounds 2 --samples 3 --rnn force
    pytorch 60 --only 'layouts/lstm/float/*D1/packed' --only 'layouts/gru/float/*D2/batch'
    sanitizers="no GPU"
else
    for network in lstm/float/32/1 lstm/float/64/1 lstm/float/256/4 lstm/half/256/8 gru/float/512/1; do
        limit=1e-6
        [[ $network = *float* ]] || limit=2e-3
        repeated $network 20 $limit
    done
    # The networks that have floors, then PyTorch's, then the rest.
    table $((seconds * 2 / 5)) --only 'lstm/float/*' --only 'lstm/half/*' --only 'gru/float/*' --only 'gru/half/*'
    pytorch $((seconds / 4))
    sanitizer=$(type -P compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -n 1)
    sanitizers="there is no compute-sanitizer"
    if [[ -n $sanitizer ]]; then
        sanitizers=
        for network in lstm/float/32/2 lstm/float/64/2 lstm/float/256/1 lstm/float/512/1 lstm/half/1024/9; do
            for tool in memcheck synccheck racecheck; do sanitized $tool $network; done
        done
    fi
fi
[[ -z $sanitizers ]] || verdict skipped compute-sanitizer "$sanitizers"
if [[ -z $host ]]; then
    # How good the model's first choices are.
    limit=$(allowed $((seconds / 8))) && "$python" -B examples/rnn_bench/table.py --bench "$bench" --shim "$shim" \
        --out "$out/bench" --seconds "$limit" --exhaustive 24 ${CUDNN:+--cudnn "$CUDNN"} >"$out/exhaustive.log"
    table $((seconds - SECONDS))
fi
cat "$out/bench/table.txt" "$out"/bench/exhaustive.txt "$out"/pytorch/rnn.txt 2>/dev/null
echo
cat "$out/checks.txt"
say "everything is in $out"
! grep -q '^WRONG' "$out/checks.txt"
