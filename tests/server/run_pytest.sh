#!/bin/sh
# run_pytest.sh PYTHON FLEXINFER SOURCE_DIR FILE - runs FILE of this folder; exit status 77 if PYTHON does not exist.
if [ ! -x "$1" ]; then
    echo "skipped: build/venv not present"
    exit 77
fi
FLEXINFER="$2" FLEXINFER_SOURCE="$3" exec "$1" -m pytest -q -p no:cacheprovider "$3/tests/server/$4"
