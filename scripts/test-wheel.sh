#!/bin/bash
# test-wheel.sh WHEEL GLPK DEMO CONVNET HOSTDNN: installs the wheel with pip and uses it there, as on a machine without GLPK
# if without-glpk.sh runs this: in an empty virtual environment of each Python that is found (PYTHONS names others), by
# --target, and with a cuDNN where PyTorch's wheels have it; and with the extras, whose wheels are GLPK and DEMO. CONVNET
# is the program to run, and HOSTDNN the folder of the cuDNN to run it on.
set -euo pipefail

scripts=$(realpath "$(dirname "$0")")
wheel=$(realpath "$1")
glpk=$(realpath "$2")
demo=$(realpath "$3")
convnet=$(realpath "$4")
hostdnn=$(realpath "$5")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
candidates=(python3 python3.{10,11,12,13,14} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3)
candidates+=(${PYTHONS:-})
hidden=${UCUDNN_TEST_GLPK_HIDDEN:-0}
# Nothing of the user's settings or files counts.
unset "${!UCUDNN_@}" "${!PYTHON@}" VIRTUAL_ENV CONDA_PREFIX
export HOME=$folder/home UCUDNN_DATABASE=off PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
mkdir "$HOME"

fail() {
    echo "test-wheel: $*" >&2
    exit 1
}

# divides COMMAND…: runs convnet by this `ucudnn`; it divides a total workspace without a word
divides() {
    rm -f run.jsonl
    LD_LIBRARY_PATH=$hostdnn "$@" run --total-workspace-size 8MiB --report run.jsonl "$convnet" --batch 4 --limit none \
        --iterations 1 --layers conv3,conv4 "$network" >run.out 2>run.err ||
        fail "$* run failed:"$'\n'"$(cat run.err)"
    [[ ! -s run.err ]] || fail "$* run says:"$'\n'"$(cat run.err)"
    grep -q '"event":"divided"' run.jsonl || fail "$* run divided no workspace"
}

echo "=== $wheel"
version=$(basename "$wheel" | cut -d- -f2)

pythons=()
for python in "${candidates[@]}"; do
    program=$("$python" -c 'import sys; print(sys.executable)' 2>/dev/null) || continue
    number=$("$program" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [[ $number == 3.* && ${number#3.} -ge 10 && " ${pythons[*]} " != *" $number="* ]] || continue
    "$program" -c 'import venv, ensurepip' 2>/dev/null && pythons+=("$number=$program")
done
[[ ${#pythons[@]} -gt 0 ]] || fail "no Python 3.10 or later with venv and ensurepip"

for entry in "${pythons[@]}"; do
    number=${entry%%=*}
    venv=$folder/venv-$number
    "${entry#*=}" -m venv "$venv"
    (cd "$venv" && find . -type f -o -type l | grep -v __pycache__ | sort) >"before-$number"
    "$venv/bin/pip" install --quiet --no-index "$wheel"
    said=$("$venv/bin/ucudnn" --version)
    [[ $said == "ucudnn $version" ]] || fail "Python $number: ucudnn --version says '$said'"
    said=$("$venv/bin/python" -m ucudnn --version)
    [[ $said == "ucudnn $version" ]] || fail "Python $number: python -m ucudnn --version says '$said'"
    "$venv/bin/python" - "$version" <<'PYTHON' || fail "Python $number: the package's paths are wrong"
import os, sys, ucudnn
assert ucudnn.__version__ == sys.argv[1], ucudnn.__version__
for place in (ucudnn.library(), ucudnn.command(), ucudnn.include() + "/ucudnn.h", ucudnn.pkgconfig() + "/ucudnn.pc"):
    assert os.path.isfile(place), place
PYTHON
    [[ -f $venv/share/man/man1/ucudnn.1 ]] || fail "Python $number: man finds no page beside the command"
    package=$("$venv/bin/python" -c 'import ucudnn; print(ucudnn.__path__[0])')
    network=$package/share/ucudnn/networks/alexnet.csv
    divides "$venv/bin/ucudnn"
    divides "$venv/bin/python" -m ucudnn
    echo "  ok: Python $number: installed with pip $("$venv/bin/pip" --version | cut -d' ' -f2), it divides workspace"
done
missing=$(for number in 3.{10,11,12,13,14}; do [[ " ${pythons[*]} " == *" $number="* ]] || echo "$number"; done)
[[ -z $missing ]] || echo "SKIPPED test-wheel: no Python" $missing "is here"

# The rest is one Python's business.
python=$venv/bin/python
"$python" -B "$scripts/check_wheel.py" "$wheel" "$glpk" "$demo"
[[ ! -e $package/lib/libucudnn_solver.so ]] || fail "the wheel has the solver, which is the extra's"
"$venv/bin/ucudnn" demo 2>demo.err && fail "ucudnn demo runs without the extra"
grep -q "pip install 'ucudnn\[demo\]'" demo.err || fail "ucudnn demo does not name the extra: $(cat demo.err)"
"$venv/bin/pip" install --quiet --no-index --find-links "$(dirname "$glpk")" "ucudnn[glpk,demo]==$version"
LD_LIBRARY_PATH=$hostdnn "$venv/bin/ucudnn" doctor | grep -E '^solver +/.*/libucudnn_solver\.so$' >/dev/null ||
    fail "the library does not load the extra's solver"
if [[ $hidden == 1 ]]; then
    cp "$package/lib/libucudnn_solver.so" alone.so
    "$python" -c 'import ctypes; ctypes.CDLL("./alone.so")' 2>/dev/null && fail "the system's GLPK is still to be had"
    echo "  ok: the system's GLPK is hidden"
fi
"$python" "$scripts/solve.py" "$package/lib/libucudnn_solver.so" || fail "the solver does not solve"
echo "  ok: the solver solves"

# Without variables no cuDNN is named: hostdnn is a part of the extra.
env -i HOME="$HOME" PATH=/usr/bin:/bin "$venv/bin/ucudnn" demo --batch 2 --output shown >demo.out 2>demo.err ||
    fail "ucudnn demo failed:"$'\n'"$(cat demo.out demo.err)"
grep -q 'Outputs agree' demo.out && grep -q "^Page: $folder/shown/demo.html" demo.out || fail "ucudnn demo says: $(cat demo.out)"
grep -q '<td>conv5 BF</td>' shown/demo.html || fail "the demo's page has no table"
echo "  ok: ucudnn demo runs from pip alone, and writes its page"

# A program that names cuDNN itself has its functions from the library by the wheel's lib/ucudnn.
lib=$package/lib
cat >version.c <<'C'
#include <cudnn.h>
#include <stdio.h>
#include <ucudnn.h>
int main(void) { return printf("%zu %zu\n", (size_t)ucudnnGetVersion(), (size_t)cudnnGetVersion()) < 0; }
C
"${CC:-gcc}" -I"$package/include" -I"$scripts/../hostdnn/include" version.c -L"$lib/ucudnn" -L"$lib" -lucudnn -lcudnn \
    -L"$hostdnn" -o linked
needed=$(readelf --dynamic --wide linked | sed -n 's/.*(NEEDED).*\[\(lib.*cudnn.*\)\]/\1/p')
[[ $needed == libucudnn.so ]] || fail "a program linked with the wheel's lib/ucudnn needs '$needed'"
LD_LIBRARY_PATH=$lib:$hostdnn ./linked | grep -E '^[0-9]+ 9[0-9]{4}$' >/dev/null || fail "a program linked with the wheel does not run"
echo "  ok: a C program links the library under cuDNN's name, and runs"

# PyTorch's wheels have cuDNN here. Nothing else leads to this one.
mkdir -p "$package/../nvidia/cudnn/lib"
cp -L "$hostdnn/libcudnn.so.9" "$package/../nvidia/cudnn/lib/libcudnn.so.9"
cat >program.py <<'PYTHON'
import ctypes, os, sys
process = ctypes.CDLL(None)
process.cudnnGetVersion.restype = ctypes.c_size_t
assert process.cudnnGetVersion() >= 90000
process.ucudnnGetVersion
loaded = {line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().endswith("/libcudnn.so.9")}
assert loaded == {os.path.realpath(sys.argv[1])}, loaded
PYTHON
for way in "$venv/bin/ucudnn" "env PATH=$venv/bin:$PATH ucudnn"; do
    # shellcheck disable=SC2086
    env -u LD_LIBRARY_PATH $way run "$python" program.py "$package/../nvidia/cudnn/lib/libcudnn.so.9" ||
        fail "$way run python does not find the cuDNN of the environment's packages"
done
"$venv/bin/ucudnn" tune --batch 1 --layers conv5 --database tuned.sqlite "$network" >tune.out 2>&1 ||
    fail "ucudnn tune does not find the cuDNN of the environment's packages:"$'\n'"$(cat tune.out)"
rm -r "$package/../nvidia"
echo "  ok: ucudnn run python, and ucudnn tune, find the cuDNN of the environment's packages"

for entry in "${pythons[@]}"; do
    number=${entry%%=*}
    venv=$folder/venv-$number
    "$venv/bin/pip" uninstall --quiet --yes ucudnn-demo ucudnn-glpk ucudnn 2>/dev/null
    (cd "$venv" && find . -type f -o -type l | grep -v __pycache__ | sort) | diff "before-$number" - ||
        fail "Python $number: pip uninstall leaves something"
    [[ ! -e $(echo "$venv"/lib/python*/site-packages)/ucudnn ]] || fail "Python $number: pip uninstall leaves folders"
done
echo "  ok: pip uninstall leaves nothing"

"$python" -m pip install --quiet --no-index --target "$folder/target" "$wheel"
network=$folder/target/ucudnn/share/ucudnn/networks/alexnet.csv
export PYTHONPATH=$folder/target
divides "$folder/target/bin/ucudnn"
divides "$python" -m ucudnn
unset PYTHONPATH
echo "  ok: pip install --target, with PYTHONPATH"
"${pythons[0]#*=}" -m pip install --quiet --no-index --user --break-system-packages "$wheel" 2>pip.err ||
    "${pythons[0]#*=}" -m pip install --quiet --no-index --user "$wheel" 2>pip.err || fail "pip install --user: $(cat pip.err)"
network=$(echo "$HOME"/.local/lib/python3*/site-packages/ucudnn/share/ucudnn/networks/alexnet.csv)
divides "$HOME/.local/bin/ucudnn"
echo "  ok: pip install --user"
