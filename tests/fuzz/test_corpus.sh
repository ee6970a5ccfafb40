#!/usr/bin/env bash
# test_corpus.sh PROGRAM FOLDER - a corpus gives back what it was packed from, each input once; a cut one is refused.
set -euo pipefail
program=$1 folder=$2

rm -rf "$folder"
mkdir -p "$folder/in" "$folder/out"
printf 'two\n' >"$folder/in/b"
printf 'two\n' >"$folder/in/c"
: >"$folder/in/empty"
head -c 300 /dev/zero >"$folder/in/zeros"
"$program" fuzz_utf8 --pack "$folder/x.corpus" "$folder"/in/*
"$program" fuzz_utf8 --corpus "$folder/x.corpus"
"$program" fuzz_utf8 --unpack "$folder/x.corpus" "$folder/out"
cmp "$folder/out/input000" "$folder/in/empty"
cmp "$folder/out/input001" "$folder/in/b"
cmp "$folder/out/input002" "$folder/in/zeros"
[ "$(ls "$folder/out" | wc -l)" -eq 3 ]
[ "$(stat -c %s "$folder/x.corpus")" -eq $((3 * 4 + 304)) ]
truncate -s 315 "$folder/x.corpus"
! "$program" fuzz_utf8 --corpus "$folder/x.corpus" 2>/dev/null
