#!/bin/sh
# run_python.sh PYTHON SCRIPT - the script, or 77 where its interpreter has not been made.
if [ ! -x "$1" ]; then
    echo "skipped: build/venv not present"
    exit 77
fi
exec "$1" -W ignore "$2"
