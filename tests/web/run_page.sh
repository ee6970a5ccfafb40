#!/bin/sh
# run_page.sh VENV FILE - runs FILE in this virtual environment; exit status 77 where it, its selenium or Chromium with
# its driver is missing.
if ! "$1/bin/python3" -c "import selenium, axe_selenium_python" 2>/dev/null || ! command -v chromium >/dev/null ||
    ! command -v chromedriver >/dev/null; then
    echo "skipped: no selenium in $1, or no chromium with its driver; ./check --clients installs them"
    exit 77
fi
exec "$1/bin/python3" -m pytest -q -p no:cacheprovider "$2"
