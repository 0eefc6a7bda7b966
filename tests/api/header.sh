#!/bin/sh
# SPDX-License-Identifier: MIT
# The public header compiles alone, as C99 and as C++11, without a warning.
set -eu
cc=$1 header=$2
warnings="-Wall -Wextra -Wpedantic -Werror -fsyntax-only"
$cc -std=c99 $warnings -Wstrict-prototypes -x c "$header"
$cc -std=c17 $warnings -x c "$header"
if ! echo 'int x;' | $cc -x c++ -fsyntax-only - 2>/dev/null; then
    echo "skipped: $cc cannot compile C++ here"
    exit 77
fi
$cc -std=c++11 $warnings -x c++ "$header"
# extern "C" is there: a C++ caller asks for the plain name
echo '#include "'"$header"'"
const char *f() { return vocis_version(); }' | $cc -std=c++11 -x c++ -S -o - - |
    grep -q '[^_0-9A-Za-z]_\{0,1\}vocis_version'
