#!/bin/sh
# Finds Python 3.11 or newer and hands over to setup.py. Usage: scripts/setup.sh run|dev
for python in python3 python3.11 python3.12 python3.13 python3.14 python; do
    # Asked, not guessed: a name on the PATH may be a stand-in that cannot run.
    if "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        exec "$python" -I "${0%/*}/setup.py" "$1"
    fi
done
echo "duckflow: needs Python 3.11 or newer, and none was found. Install it (for example: apt install python3, brew install python) and try again." >&2
echo "duckflow: Python 3.11 以上が必要ですが、見つかりません。インストールしてからもう一度実行してください（例: apt install python3、brew install python）。" >&2
exit 1
