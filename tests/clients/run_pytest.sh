#!/bin/sh
# run_pytest.sh VENV FILE - runs FILE in this virtual environment; exit status 77 if it does not exist.
if [ ! -x "$1/bin/python3" ]; then
    echo "skipped: there is no $1; ./check and ./check --clients make them"
    exit 77
fi
exec "$1/bin/python3" -m pytest -q -p no:cacheprovider "$2"
