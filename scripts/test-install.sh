#!/bin/bash
# test-install.sh: `make install` and `make uninstall` in folders of its own. After uninstall, the folders hold the same
# files as before.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
list=share/ucudnn/installed.txt

fail() {
    echo "test-install: $*" >&2
    exit 1
}
run() { "${MAKE:-make}" --silent --no-print-directory "$@" >"$folder/log" 2>&1; }
contents() { (cd "$1" && find . -printf '%P %y %l\n' | sort); }

echo "=== make install, make uninstall"
prefix=$folder/prefix
mkdir -p "$prefix/bin" "$prefix/lib/ucudnn" "$prefix/share/doc/other"
for file in bin/other lib/ucudnn/other share/doc/other/README; do echo other >"$prefix/$file"; done
contents "$prefix" >"$folder/before"
run install PREFIX="$prefix" || fail "make install failed:"$'\n'"$(cat "$folder/log")"
contents "$prefix" >"$folder/installed"
for file in bin/ucudnn lib/libucudnn.so lib/ucudnn/libcudnn.so share/ucudnn/networks/alexnet.csv "$list"; do
    grep -q "^$file " "$folder/installed" || fail "make install has not put $file in place"
done

# An earlier version's file that this version lacks, and one of the user's that has come since.
echo old >"$prefix/lib/libucudnn_old.so"
echo lib/libucudnn_old.so >>"$prefix/$list"
run install PREFIX="$prefix" || fail "make install failed the second time:"$'\n'"$(cat "$folder/log")"
contents "$prefix" | diff "$folder/installed" - || fail "a second make install leaves something else than the first"
echo "  ok: installed again, only the present files are there"
mkdir "$prefix/share/ucudnn/mine"
run uninstall PREFIX="$prefix" || fail "make uninstall failed:"$'\n'"$(cat "$folder/log")"
rmdir "$prefix/share/ucudnn/mine" "$prefix/share/ucudnn" || fail "make uninstall has removed the user's folder"
contents "$prefix" | diff "$folder/before" - || fail "make uninstall leaves something else than was there before"
echo "  ok: uninstalled, only the files of others are there"

run uninstall PREFIX="$prefix" && fail "make uninstall passes where nothing is installed"
grep -q "$prefix/$list" "$folder/log" || fail "that does not name the missing list:"$'\n'"$(cat "$folder/log")"
mkdir -p "$prefix/share/ucudnn"
printf 'bin/other\n../before\n' >"$prefix/$list"
run uninstall PREFIX="$prefix" && fail "make uninstall follows a list out of its folder"
[[ -f $folder/before && -f $prefix/bin/other ]] || fail "make uninstall removes files by a list that it refuses"
echo "  ok: without a list, or by a list that leaves the folder, it removes nothing"

run install PREFIX="$folder/with" || fail "make install failed:"$'\n'"$(cat "$folder/log")"
run install PREFIX="$folder/without" CARGO=no-cargo || fail "make install needs cargo:"$'\n'"$(cat "$folder/log")"
diff <(contents "$folder/with") <(contents "$folder/without") ||
    fail "make install without cargo leaves something else than with it"
CARGO_TARGET_DIR=$folder/nothing run install PREFIX="$folder/none" CARGO=no-cargo && fail "make install passes where nothing is built"
grep -q '`make build` makes it' "$folder/log" || fail "that does not say what to do:"$'\n'"$(cat "$folder/log")"
[[ ! -e $folder/none ]] || fail "make install leaves files where nothing is built"
echo "  ok: what is built is installed without cargo"

run install DESTDIR="$folder/packaged" PREFIX=/usr || fail "make install with DESTDIR failed:"$'\n'"$(cat "$folder/log")"
! grep -rqF "$folder" "$folder/packaged/usr/lib/pkgconfig" "$folder/packaged/usr/$list" || fail "the files name DESTDIR"
run uninstall DESTDIR="$folder/packaged" PREFIX=/usr || fail "make uninstall with DESTDIR failed"
[[ -z $(contents "$folder/packaged" | sed '/^ d $/d') ]] || fail "below DESTDIR is left: $(contents "$folder/packaged")"
echo "  ok: below DESTDIR likewise"
