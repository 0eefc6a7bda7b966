#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library exports every function of vocis.h, and nothing else. Names that begin with
# two underscores belong to the compiler: sanitizers make some.
set -eu
library=$1
header=$(dirname "$0")/../../include/vocis.h
exported=$(nm -D --defined-only "$library" |
    awk '{ sub(/@.*/, "", $NF); if ($NF !~ /^__/) print $NF }' | sort)
declared=$(tr '\n' ' ' < "$header" | grep -o 'VOCIS_API [^(;]*(' | grep -o 'vocis_[a-z_0-9]*(' |
    tr -d '(' | sort)
[ -n "$declared" ]
if [ "$exported" != "$declared" ]; then
    echo "exported and declared differ:"
    echo "$exported" > "${TMPDIR:-/tmp}/exported.$$"
    echo "$declared" | diff "${TMPDIR:-/tmp}/exported.$$" - || true
    rm -f "${TMPDIR:-/tmp}/exported.$$"
    exit 1
fi
echo "$(echo "$exported" | wc -l) symbols"
