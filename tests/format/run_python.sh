#!/bin/sh
# run_python.sh PYTHON SCRIPT - runs the script; exit status 77 (skipped) if PYTHON does not exist.
if [ ! -x "$1" ]; then
    echo "skipped: build/venv not present"
    exit 77
fi
exec "$1" -W ignore "$2"
