#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs into a folder of its own and moves that folder, then builds examples/transcribe.c
# against it, once through pkg-config and once through find_package. Both run with tiny.en of
# $VOCIS_TEST_MODELS; without it they only run to their usage line, and the test says "skipped".
set -eu
cmake=$1 build=$2 cc=$3
source=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/stage "$cmake" --install "$build" --prefix /opt/vocis > "$work/log"
prefix=$work/moved
mv "$work/stage/opt/vocis" "$prefix"

for file in include/vocis.h bin/vocis share/man/man1/vocis.1 share/man/man1/vocis-transcribe.1; do
    [ -f "$prefix/$file" ] || { echo "$file was not installed"; exit 1; }
done
"$prefix/bin/vocis" --version # finds its library without help

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name vocis.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046,SC2086
$cc ${CFLAGS:-} -std=c17 -Wall -Wextra -Werror examples/transcribe.c -o "$work/one" \
    $(pkg-config --cflags --libs vocis)
for example in stream microphone; do
    # shellcheck disable=SC2046,SC2086
    $cc ${CFLAGS:-} -std=c17 -Wall -Wextra -Werror -Wno-unused-parameter "examples/$example.c" \
        -o "$work/$example" $(pkg-config --cflags --libs vocis)
done
LD_LIBRARY_PATH=$(pkg-config --variable=libdir vocis)
export LD_LIBRARY_PATH

mkdir "$work/project"
cp examples/transcribe.c "$work/project"
cat > "$work/project/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.20)
project(example C)
find_package(vocis 0.1 REQUIRED)
add_executable(two transcribe.c)
target_link_libraries(two vocis::vocis)
END
"$cmake" -S "$work/project" -B "$work/two" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" > "$work/log"
"$cmake" --build "$work/two" > "$work/log"

for program in "$work/one" "$work/two/two"; do
    status=0
    "$program" 2> "$work/usage" || status=$?
    [ "$status" = 2 ] && grep -q usage "$work/usage"
done
model=${VOCIS_TEST_MODELS:-}/tiny.en
if [ ! -d "$model" ]; then
    echo "skipped: built twice, but there is no model in VOCIS_TEST_MODELS to run them with"
    exit 77
fi
for program in "$work/one" "$work/two/two"; do
    "$program" "$source/tests/data/audio/jfk.wav" "$model" | tee "$work/text"
    grep -qi 'ask not what your country can do for you' "$work/text"
done
