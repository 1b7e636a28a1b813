#!/bin/bash
# miri.sh: runs the unit tests of crates without foreign code, and of the panic boundary, under Miri, which finds
# undefined behaviour. Miri needs one nightly toolchain; rustup fetches it. Without rustup this says so and passes.
set -euo pipefail
cd "$(dirname "$0")/.."

toolchain=nightly-2026-10-30
if ! command -v rustup >/dev/null; then
    echo "SKIPPED miri: there is no rustup to fetch $toolchain with"
    exit 0
fi
if ! rustup toolchain install "$toolchain" --profile minimal -c miri -c rust-src --no-self-update; then
    echo "SKIPPED miri: rustup cannot fetch $toolchain"
    exit 0
fi
export MIRIFLAGS=-Zmiri-disable-isolation # proptest reads its environment and files
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri
# The solver is a library that Miri cannot load.
cargo "+$toolchain" miri test --locked -p ucudnn-planner -p cudnn-abi --lib -- --skip solver:: --skip workspace_division::
cargo "+$toolchain" miri test --locked -p ucudnn --lib boundary::
