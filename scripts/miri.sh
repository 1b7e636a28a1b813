#!/bin/bash
# miri.sh: runs tests of the planner and of vertex functions under Miri, which finds undefined behaviour. Miri needs one
# nightly toolchain; rustup fetches it. Without rustup this says so and passes.
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
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
# Those of the planner's tests that Miri, hundreds of times as slow, ends within a minute. It cannot load the solver.
cargo "+$toolchain" miri test --locked -p ucudnn-planner --lib -- configuration:: policy:: tests::candidates tests::dropping
# Runs of one thread: Miri rejects the code of rayon's queues.
PROPTEST_CASES=2 cargo "+$toolchain" miri test --locked -p ucudnn-vertex --test vertex -- gradients:: merging levels::
