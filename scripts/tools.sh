#!/bin/bash
# tools.sh [c++]: checks for the build's tools: a C compiler, make, Python, Rust, GLPK's header, and libclang, which
# reads that header; for the tests also a C++ compiler. Installs Debian's packages if it may, and says so, but not Rust.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v "${CC:-gcc}" >/dev/null || missing+=(gcc libc6-dev)
[[ ${1:-} != c++ ]] || command -v "${CXX:-c++}" >/dev/null || missing+=(g++)
command -v ld >/dev/null || missing+=(binutils)
command -v make >/dev/null || missing+=(make)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3 python3-venv)
"${CC:-gcc}" -E -include glpk.h -x c /dev/null >/dev/null 2>&1 || missing+=(libglpk-dev)
# bindgen looks in these folders; it also needs the headers that come with libclang. libclang-cpp is another library.
clang() {
    local folder
    for folder in "${LIBCLANG_PATH:-/nowhere}" /usr/lib*/llvm*/lib* /usr/lib* /usr/lib/*-linux-gnu; do
        compgen -G "$folder/libclang*.so*" || true
    done | grep -v /libclang-cpp
}
clang >/dev/null || missing+=(libclang-dev)
if ((${#missing[@]})); then
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
        echo "tools: please install: ${missing[*]} (names as in Debian)" >&2
        exit 1
    fi
    echo "tools: installing ${missing[*]}" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

if ! command -v "${CARGO:-cargo}" >/dev/null; then
    if [[ -x $HOME/.cargo/bin/cargo ]]; then
        echo "tools: cargo is in $HOME/.cargo/bin, which is not on PATH: run . ~/.cargo/env first" >&2
    else
        echo "tools: no cargo. Install Rust, with rustup (the Rust project's installer) or your system's package." >&2
    fi
    exit 1
fi

# Cargo.toml alone has the required version.
least=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
have=$(rustc --version | cut -d' ' -f2)
if [[ $(printf '%s\n' "$least" "$have" | sort -V | head -n1) != "$least" ]]; then
    echo "tools: Rust $have is too old: $least or newer (rustup update)" >&2
    exit 1
fi
