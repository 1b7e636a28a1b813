#!/bin/bash
# test-dist.sh TARBALL CONVNET HOSTDNN: unpacks the tarball of `make dist` into its own folder and uses it there, as on
# a machine without GLPK, if without-glpk.sh runs this. CONVNET is the program to run, and HOSTDNN the folder of the
# cuDNN to run it on.
set -euo pipefail

scripts=$(realpath "$(dirname "$0")")
tarball=$(realpath "$1")
convnet=$(realpath "$2")
hostdnn=$(realpath "$3")
examples=$(realpath "$scripts/../examples")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -C "$folder" -xzf "$tarball"
top=$(echo "$folder"/*)
cd "$folder"

fail() {
    echo "test-dist: $*" >&2
    exit 1
}
needed() { readelf --dynamic --wide "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

network=$top/share/ucudnn/networks/alexnet.csv

echo "=== $tarball"
for kind in networks devices; do
    diff -r "$examples/$kind" "$top/share/ucudnn/$kind" || fail "the example $kind are not all there"
done
echo "  ok: the example networks and devices are there"
if [[ ${UCUDNN_TEST_GLPK_HIDDEN:-0} == 1 ]]; then
    cp "$top/lib/libucudnn_solver.so" alone.so
    python3 -c 'import ctypes; ctypes.CDLL("./alone.so")' 2>/dev/null && fail "the system's GLPK is still to be had"
    echo "  ok: the system's GLPK is hidden"
fi

for file in lib/libucudnn.so bin/ucudnn; do
    stray=$(needed "$top/$file" | grep -vE '^(libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|ld-linux.*)$' || true)
    [[ -z $stray ]] || fail "$file needs $stray"
done
echo "  ok: the library and the command need libc, libm and libgcc_s alone"
paths=$(readelf --dynamic --wide "$top/lib/libucudnn_solver.so" | sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]/R\1PATH \2/p')
[[ $paths == 'RPATH $ORIGIN:$ORIGIN/ucudnn' ]] || fail "libucudnn_solver.so has '$paths'"
outside=$(ldd "$top/lib/libucudnn_solver.so" | grep -vE "=> $top/lib/|linux-vdso|ld-linux|lib(c|m)\.so\.6|libgcc_s" || true)
[[ -z $outside ]] || fail "libucudnn_solver.so finds outside of the tarball:"$'\n'"$outside"
echo "  ok: the solver finds GLPK and what that needs in the tarball"
debug=$(find "$top" -name '*.so*' -exec readelf --sections --wide {} + | grep -c '\.debug_info' || true)
[[ $debug == 0 ]] || fail "$debug libraries have debug information"

python3 -B "$scripts/solve.py" "$top/lib/libucudnn_solver.so" || fail "the solver does not solve"
echo "  ok: the solver solves"

# Computes pkg-config's output, because pkg-config may be missing.
flags=$(python3 - "$top/lib/pkgconfig/ucudnn.pc" <<'PYTHON'
import pathlib, re, sys
file = pathlib.Path(sys.argv[1])
values = {"pcfiledir": str(file.parent)}
expand = lambda text: re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], text)
for line in file.read_text().splitlines():
    if found := re.fullmatch(r"(\w+)(=|: )(.*)", line):
        values[found[1]] = expand(found[3])
print(values["Cflags"], values["Libs"])
PYTHON
)
if command -v pkg-config >/dev/null; then
    theirs=$(PKG_CONFIG_PATH=$top/lib/pkgconfig pkg-config --cflags --libs ucudnn)
    [[ $(echo $theirs) == "$(echo $flags)" ]] || fail "pkg-config says $theirs, and not $flags"
fi
cat >version.c <<'C'
#include <stdio.h>
#include <ucudnn.h>
int main(void) { return printf("%zu\n", (size_t)ucudnnGetVersion()) < 0; }
C
# shellcheck disable=SC2086
"${CC:-gcc}" -I"$hostdnn" -I"$examples/../hostdnn/include" version.c $flags -o version
LD_LIBRARY_PATH=$top/lib:$hostdnn ./version | grep -E '^[0-9]+$' >/dev/null || fail "a program linked by pkg-config does not run"
echo "  ok: a C program is built with pkg-config's flags, and runs"

# A program that names cuDNN itself, as Caffe's Makefile does, before the library or after it.
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    for needed_only in --as-needed --no-as-needed; do
        for libraries in "$flags -L$hostdnn -lcudnn" "-lcudnn $flags -L$hostdnn"; do
            # shellcheck disable=SC2086
            $compiler -std=c99 -O1 -I"$examples/../hostdnn/include" "$examples"/convnet.c "$examples"/convnet/*.c \
                -Wl,$needed_only $libraries -ldl -lm -o linked
            ! needed linked | grep '^libcudnn' >/dev/null || fail "by $compiler $needed_only $libraries a program needs cuDNN itself"
            LD_BIND_NOW=1 LD_DEBUG=bindings LD_LIBRARY_PATH=$top/lib:$hostdnn UCUDNN_DATABASE=off ./linked --batch 1 \
                --iterations 1 --layers conv5 "$network" 2>&1 >linked.out |
                grep "linked.* symbol .cudnn" >bindings || true
            [[ $(wc -l <bindings) -ge 20 ]] || fail "by $compiler $needed_only $libraries too few symbols are bound"
            elsewhere=$(grep -v "to $top/lib/libucudnn.so " bindings || true)
            [[ -z $elsewhere ]] || fail "by $compiler $needed_only $libraries symbols are bound elsewhere:"$'\n'"$elsewhere"
        done
    done
done
echo "  ok: a program that links -lcudnn with pkg-config's flags binds every symbol of cuDNN to the library"

# run LIBRARY: trains two layers within a total; the report goes to run.jsonl, messages go to run.err
run() {
    rm -f run.jsonl
    LD_LIBRARY_PATH=$hostdnn LD_PRELOAD=$1 UCUDNN_TOTAL_WORKSPACE_SIZE=8MiB UCUDNN_DATABASE=off UCUDNN_EXPLORE=unbounded UCUDNN_REPORT=run.jsonl \
        "$convnet" --batch 4 --limit none --iterations 1 --layers conv3,conv4 "$network" >run.out 2>run.err ||
        fail "convnet under $1 failed:"$'\n'"$(cat run.err)"
}
run "$top/lib/libucudnn.so"
[[ ! -s run.err ]] || fail "dividing workspace says:"$'\n'"$(cat run.err)"
grep -q '"event":"divided"' run.jsonl || fail "the tarball's library divided no workspace"
LD_LIBRARY_PATH=$hostdnn "$top/bin/ucudnn" doctor | grep -E "^solver +$top/lib/libucudnn_solver\.so$" >/dev/null ||
    fail "the tarball's library does not load its solver"
echo "  ok: preloaded from $top, it divides workspace"

mkdir alone
cp "$top/lib/libucudnn.so" alone
run "$folder/alone/libucudnn.so"
[[ ! -s run.err ]] || fail "libucudnn.so alone says:"$'\n'"$(cat run.err)"
grep -q '"event":"divided"' run.jsonl || fail "libucudnn.so alone divided no workspace"
echo "  ok: libucudnn.so alone divides workspace, too"

export UCUDNN_DATABASE=$folder/tuning.sqlite
LD_LIBRARY_PATH=$hostdnn "$top/bin/ucudnn" tune --batch 4 --layers conv3 "$network" >tune.out 2>&1 ||
    fail "ucudnn tune failed:"$'\n'"$(cat tune.out)"
"$top/bin/ucudnn" plan --batch 4 --layers conv3 --total 8MiB --json "$network" >plan.json 2>plan.err ||
    fail "ucudnn plan failed:"$'\n'"$(cat plan.err)"
python3 -m json.tool plan.json /dev/null || fail "ucudnn plan printed no JSON"
echo "  ok: its command tunes, and plans the division of a total"
LD_LIBRARY_PATH=$hostdnn UCUDNN_DATABASE=off "$top/bin/ucudnn" run --total-workspace-size 8MiB --report command.jsonl \
    "$convnet" --batch 4 --limit none --iterations 1 --layers conv3 "$network" >run.out 2>run.err ||
    fail "ucudnn run failed:"$'\n'"$(cat run.err)"
grep -q '"event":"divided"' command.jsonl || fail "ucudnn run divided no workspace"
echo "  ok: its command runs a program on its library"
