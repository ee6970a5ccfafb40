#!/usr/bin/env bash
# Makes models/storyteller.gguf and tests/vectors/logits from nothing: Debian packages, stories, vocabulary, training,
# export.
# Usage, from anywhere:  tools/storyteller/make.sh [--minutes 32] [other options of train.py]
# Needs Debian 12 (or a python3 that has torch, numpy and sentencepiece: PYTHON=... makes it use that one).
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-/usr/bin/python3}
out=build/storyteller
as_root=$([ "$(id -u)" = 0 ] || echo sudo)

if ! "$python" -c 'import torch, numpy, sentencepiece' 2>/dev/null; then
    # OpenBLAS replaces the reference BLAS that python3-torch would otherwise use: thirty times faster.
    $as_root apt-get update
    $as_root apt-get install -y --no-install-recommends python3-torch python3-numpy \
        python3-sentencepiece libopenblas0-pthread
fi

# Keep freed memory: otherwise every step returns its activations to the system and allocates them again.
# Waiting threads must not spin: on a busy machine, spinning makes training several times slower.
export OMP_WAIT_POLICY=PASSIVE
export MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=8000000000

mkdir -p "$out" models tests/vectors/logits
"$python" tools/storyteller/vectors.py tiny tests/vectors/logits
"$python" tools/storyteller/train.py --out "$out" "$@"
"$python" tools/storyteller/vectors.py storyteller "$out" models/storyteller.gguf tests/vectors/logits
"$python" tools/storyteller/sample.py "$out"
ls -l models/storyteller.gguf
