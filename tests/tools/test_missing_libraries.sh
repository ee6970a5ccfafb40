#!/usr/bin/env bash
# test_missing_libraries.sh CMAKE SOURCE FOLDER - configuring says in one line which libraries are missing, and which
# Debian packages hold them. Libraries are looked for in FOLDER alone: first in an empty one, then next to a PCRE2.
set -euo pipefail
cmake=$1 source=$2 folder=$3

configure() {
    rm -rf "$folder/build"
    ! "$cmake" -S "$source" -B "$folder/build" -G Ninja -DCMAKE_FIND_ROOT_PATH="$folder/root" \
        -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY "$@" >"$folder/log" 2>&1
}

# expect LINE: it is the one line that names what is missing.
expect() {
    if [ "$(grep -o 'missing libraries.*' "$folder/log")" != "$1" ]; then
        printf 'expected: %s\nconfiguring said:\n' "$1"
        cat "$folder/log"
        exit 1
    fi
}

rm -rf "$folder"
mkdir -p "$folder/root/usr/lib" "$folder/root/usr/include"
configure
expect "missing libraries: curl, gnutls, pcre2-8, utf8proc, cmocka; on Debian: apt-get install\
 libcurl4-gnutls-dev libgnutls28-dev libpcre2-dev libutf8proc-dev libcmocka-dev"

touch "$folder/root/usr/lib/libpcre2-8.so" "$folder/root/usr/include/pcre2.h"
configure -DFX_TESTS=OFF
expect "missing libraries: curl, gnutls, utf8proc; on Debian: apt-get install\
 libcurl4-gnutls-dev libgnutls28-dev libutf8proc-dev"
