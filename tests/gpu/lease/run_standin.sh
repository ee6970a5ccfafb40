#!/bin/sh
# run_standin.sh PYTHON BIN OUT - all parts of the lease on the stand-in for the driver, at small sizes; then again,
# when nothing is left to do; rows on both memories, and what spoils vTensor's; some parts of a pack, from elsewhere.
set -e
lease=$(dirname "$0")/lease.py
export PYTHONDONTWRITEBYTECODE=1
rm -rf "$3"
"$1" "$lease" run "$2" "$3" --small
test -z "$("$1" "$lease" run "$2" "$3" --small)"

"$1" "$lease" goals "$3" >"$3/goals.txt" # times mean nothing here, that there are figures does
# Batches of 16 and 64 are not run; whether so few tokens show growth is a matter of the mapper's time.
test "$(grep '^not run' "$3/goals.txt" | grep -vc growth)" = 2
for part in attention prefill; do
    for row in packed,vtensor packed,plain dense,plain paged-16 paged-256; do
        grep -q "^batch-invariant,$row" "$3/$part.txt" || { echo "$part has no row $row"; exit 1; }
    done
    grep -q "[3-9][0-9] % of vTensor's chunks came after" "$3/$part.txt"
done
for plant in stride chunk hole; do
    ! "$2/gpu_attention_speed" small batch-invariant plant-$plant >"$3/$plant.txt" 2>&1
done
grep -q "DIFFERENT: batch-invariant, layer 1: vTensor's memory against plain, packed" "$3/stride.txt"
grep -q "DIFFERENT: batch-invariant, layer 0: vTensor's memory against plain, packed" "$3/chunk.txt"
grep -q CUDA_ERROR_ILLEGAL_ADDRESS "$3/hole.txt"

grep -q torch "$3/attention_torch.txt" # its rows, or why there are none

mkdir "$3/packages"
echo 'raise ImportError("this is the packed torch")' >"$3/packages/torch.py"
"$1" "$lease" pack "$3/pack" --build "$2/.." --python "$3/packages"
cd "$3/pack"
"$1" tree/tests/gpu/lease/lease.py run . "$3/elsewhere" --small --only order exact lost attention_torch
test -f "$3/elsewhere/exact.ok"
grep -q "no rows of torch: this is the packed torch" "$3/elsewhere/attention_torch.txt"
rm -rf "$3/pack"
