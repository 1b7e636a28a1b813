#!/bin/bash
# quick.sh [CRATE...]: the unit tests of crates, each named by its folder (`planner`, `hostdnn`, or `src` for the library's
# own), or of all crates with changes against HEAD. Tests that emulate GPU kernels are left out.
set -euo pipefail
cd "$(dirname "$0")/.."

named=$#
if ((named == 0)); then
    changed=$(git diff --name-only HEAD && git ls-files --others --exclude-standard)
    # Crates below crates/ are named by their second folder.
    mapfile -t crates < <(sed -n 's#^crates/##; s#^\([a-z-]*\)/.*\.\(rs\|toml\)$#\1#p' <<<"$changed" | sort -u)
    set -- "${crates[@]}"
fi

packages=() targets=(--bins)
for crate in "$@"; do
    for folder in "crates/$crate" "$crate" "${crate/#src/.}" ""; do
        [[ ! -f $folder/Cargo.toml ]] || break
    done
    if [[ $folder == benches || $folder == headers ]]; then
        echo "quick: $folder has no unit tests; make check runs it" >&2
    elif [[ -n $folder ]]; then
        # Cargo refuses --lib where no package has a library.
        [[ ! -f $folder/src/lib.rs && ! -f $folder/lib.rs ]] || targets=(--lib --bins)
        packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -n 1)")
    elif ((named)); then
        echo "quick: there is no crate $crate" >&2
        exit 1
    fi
done
if ((${#packages[@]} == 0)); then
    echo "quick: no crate has changes against HEAD; name one, as in make quick CRATE=planner" >&2
    exit 0
fi
echo "quick: ${packages[*]//-p/}"
"${CARGO:-cargo}" test --locked "${packages[@]}" "${targets[@]}" -- --skip emulated
