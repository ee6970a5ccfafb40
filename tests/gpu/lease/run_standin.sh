#!/bin/sh
# run_standin.sh PYTHON BIN OUT - all parts of the lease on the stand-in for the driver, at small sizes; then again,
# when nothing is left to do; and some parts of a pack, from elsewhere.
set -e
lease=$(dirname "$0")/lease.py
rm -rf "$3"
"$1" "$lease" run "$2" "$3" --small
test -z "$("$1" "$lease" run "$2" "$3" --small)"

grep -q torch "$3/attention_torch.txt" # its rows, or why there are none

mkdir "$3/packages"
echo 'raise ImportError("this is the packed torch")' >"$3/packages/torch.py"
"$1" "$lease" pack "$3/pack" --build "$2/.." --python "$3/packages"
cd "$3/pack"
"$1" tree/tests/gpu/lease/lease.py run . "$3/elsewhere" --small --only order exact lost attention_torch
test -f "$3/elsewhere/exact.ok"
grep -q "no rows of torch: this is the packed torch" "$3/elsewhere/attention_torch.txt"
rm -rf "$3/pack"
