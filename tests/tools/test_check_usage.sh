#!/usr/bin/env bash
# test_check_usage.sh SOURCE - what ./check prints for --help and for unknown arguments. (It runs nothing here.)
set -euo pipefail
cd "$1"

expect() {
    local status=$1 got=0
    shift
    ./check "$@" >/dev/null 2>&1 || got=$?
    if [ "$got" -ne "$status" ]; then
        echo "./check $*: exit status $got instead of $status"
        exit 1
    fi
}

expect 0 --help
expect 2 --fast
expect 2 nowhere
expect 2 engine nowhere
expect 2 --quick
expect 2 --all engine
expect 2 --since

modules=$(./check --help | tr -s ' \n' ' ' | sed 's/.*these modules: //; s| ./check --all.*||; s| ./check --clients.*||')
for folder in src/*/; do
    [[ " $modules " = *" $(basename "$folder") "* ]] || { echo "./check --help does not name $folder"; exit 1; }
done
