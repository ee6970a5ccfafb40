#!/bin/sh
# run_standin.sh PYTHON BIN OUT - all parts of the lease on the stand-in for the driver, at small sizes; then again,
# when nothing is left to do.
set -e
lease=$(dirname "$0")/lease.py
rm -rf "$3"
"$1" "$lease" run "$2" "$3" --small
test -z "$("$1" "$lease" run "$2" "$3" --small)"
