#!/bin/bash
# chosen-tests.sh PACKAGE TARGET FILTER...: runs the tests of a package whose paths contain one of the filters. TARGET is
# --lib, or the name of a test program. A filter that matches no test is an error: the tests would be left out silently.
set -euo pipefail
package=$1
[[ $2 == --lib ]] && target=(--lib) || target=(--test "$2")
shift 2
tests=("${CARGO:-cargo}" test --locked -p "$package" "${target[@]}" --)
all=$("${tests[@]}" --list --format terse)
for filter in "$@"; do
    if ! grep -q -e "$filter.*: test\$" <<<"$all"; then
        echo "$0: $package has no test like $filter" >&2
        exit 1
    fi
done
"${tests[@]}" "$@"
