#!/bin/bash
# Builds the library for AArch64 Linux, and tests its trampolines, its search for the real cuDNN, its symbols, and the
# kernels' emulator. The tests run here, their C and C++ programs under qemu. Needs rustup's target, a cross compiler
# and qemu-user, and names missing tools.
set -eu
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
cross=aarch64-linux-gnu
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)

missing=
[ -n "$emulator" ] || missing="$missing qemu-user"
command -v $cross-gcc >/dev/null || missing="$missing gcc-$cross"
command -v $cross-g++ >/dev/null || missing="$missing g++-$cross"
[ -e /usr/$cross/lib/libc.so.6 ] || missing="$missing libc6-dev-arm64-cross"
if [ -n "$missing" ]; then
    echo "$0: please install (Debian's names):$missing" >&2
    exit 1
fi
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    rustup target add $target
fi

CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cross-gcc \
    cargo build -p ucudnn --lib --target $target
export UCUDNN_TEST_CC=$cross-gcc UCUDNN_TEST_CXX=$cross-g++ UCUDNN_TEST_RUNNER="$emulator -L /usr/$cross"
UCUDNN_TEST_LIBRARY=$(realpath "${CARGO_TARGET_DIR:-target}/$target/debug/libucudnn.so") \
    "${PYTHON:-python3}" -B scripts/run_tests.py .:tests:{trampolines::,finding::,symbols::} hostdnn:emulator:alone::
