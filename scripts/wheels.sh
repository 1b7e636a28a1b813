#!/bin/bash
# wheels.sh NAME: makes the virtual environment build/NAME with the packages of scripts/NAME.txt, once, and prints its
# site-packages folder. The lists are complete, so pip resolves nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
list=scripts/$name.txt
venv=build/$name
if ! cmp -s "$list" "$venv/installed.txt"; then
    echo "wheels: fetching into $venv: $(grep -v '^#' "$list" | tr '\n' ' ')" >&2
    mkdir -p build
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv"
    # One at a time, and without a cache: the largest packages are gigabytes. pip reads hashes from files only.
    grep -v '^#' "$list" | while read -r package; do
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-warn-conflicts --no-cache-dir --no-deps \
            --only-binary=:all: --requirement <(echo "$package") >&2
    done
    cp "$list" "$venv/installed.txt"
fi
"$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
