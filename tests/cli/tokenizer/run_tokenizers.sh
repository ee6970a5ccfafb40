#!/bin/sh
# run_tokenizers.sh PYTHON ANSWERS SOURCE_DIR - test_tokenizers.py, or 77 if its interpreter has not been made.
if [ ! -x "$1" ]; then
    echo "skipped: build/venv not present"
    exit 77
fi
FLEXINFER_ANSWERS="$2" PYTHONDONTWRITEBYTECODE=1 exec "$1" "$3/tests/cli/tokenizer/test_tokenizers.py"
