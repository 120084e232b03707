#!/bin/sh
# What the tests need beside Go: a C compiler and its headers, because the race
# detector is linked by cgo; and two programs that some tests hold this module
# against, without which they are left out. Debian packages are installed when we
# are root and named when we are not.
set -eu

GO=${GO:-go}

if ! command -v "$GO" >/dev/null; then
	echo "deps: there is no Go: install it from https://go.dev/dl/ and put it on PATH" >&2
	exit 1
fi
# Go compares itself with the version in go.mod, and says so when it is older.
if ! "$GO" list -m >/dev/null; then
	echo "deps: $("$GO" version) can not build this module, which wants $(grep '^go ' go.mod)" >&2
	exit 1
fi

compiles() {
	printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | "${CC:-gcc}" -x c -o /dev/null - 2>/dev/null
}

missing=
compiles || missing="gcc libc6-dev"
command -v tshark >/dev/null || missing="$missing tshark"
command -v ucx_perftest >/dev/null || missing="$missing ucx-utils"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	echo "deps: installing $missing"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	# shellcheck disable=SC2086 # one word for each package
	apt-get install -q -y --no-install-recommends $missing
else
	echo "deps: not all is here. On Debian: apt-get install $missing" >&2
fi
compiles || { echo "deps: no C compiler that works, which go test -race needs" >&2; exit 1; }
