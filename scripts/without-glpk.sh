#!/bin/bash
# without-glpk.sh COMMAND…: runs a command as on a machine without GLPK: in a mount namespace, if one may be made, that
# hides the system's GLPK and its dependencies. UCUDNN_TEST_GLPK_HIDDEN tells the command whether that was done: 1 or 0.
set -euo pipefail
case ${UCUDNN_TEST_GLPK_HIDDEN:-} in
    "")
        for namespace in --mount "--mount --map-root-user"; do
            # shellcheck disable=SC2086
            if unshare $namespace mount --bind /dev/null /dev/null 2>/dev/null; then
                # shellcheck disable=SC2086
                UCUDNN_TEST_GLPK_HIDDEN=1 exec unshare $namespace "$0" "$@"
            fi
        done
        echo "SKIPPED: hiding the system's GLPK takes a mount namespace; only where the loader finds it is checked"
        export UCUDNN_TEST_GLPK_HIDDEN=0
        ;;
    1)
        for file in /usr/lib/*/lib{glpk,colamd,amd,suitesparseconfig,ltdl}.so* /usr/local/lib/libglpk.so*; do
            [[ ! -f $file || -L $file ]] || mount --bind /dev/null "$file"
        done
        ;;
esac
exec "$@"
