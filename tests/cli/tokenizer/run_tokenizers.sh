#!/bin/sh
# run_tokenizers.sh PYTHON ANSWERS TEST - runs a test of this folder; exit status 77 if PYTHON does not exist.
if [ ! -x "$1" ]; then
    echo "skipped: build/venv not present"
    exit 77
fi
FLEXINFER_ANSWERS="$2" PYTHONDONTWRITEBYTECODE=1 exec "$1" "$3"
