#!/bin/sh
# run_openai.sh PYTHON FLEXINFER SOURCE_DIR - test_openai.py, or 77 where its interpreter has not been made.
if [ ! -x "$1" ]; then
    echo "skipped: build/venv not present"
    exit 77
fi
FLEXINFER="$2" FLEXINFER_SOURCE="$3" exec "$1" -m pytest -q -p no:cacheprovider "$3/tests/server/test_openai.py"
