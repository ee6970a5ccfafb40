#!/bin/sh
# run_standin.sh PYTHON BIN OUT - all parts of the lease on the stand-in for the driver, at small sizes; then again,
# when nothing is left to do; and some parts of a pack, from elsewhere.
set -e
lease=$(dirname "$0")/lease.py
rm -rf "$3"
"$1" "$lease" run "$2" "$3" --small
test -z "$("$1" "$lease" run "$2" "$3" --small)"

"$1" "$lease" pack "$3/pack" --build "$2/.."
cd "$3/pack"
"$1" tree/tests/gpu/lease/lease.py run . "$3/elsewhere" --small --only order exact lost
test -f "$3/elsewhere/exact.ok"
rm -rf "$3/pack"
