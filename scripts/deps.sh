#!/bin/sh
# What the tests need beside Go: a C compiler and its headers, because the race
# detector is linked by cgo. Debian packages are installed when we are root and
# named when we are not.
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

compiles && exit 0

packages="gcc libc6-dev"
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "deps: no C compiler that works, which go test -race needs. On Debian:" >&2
	echo "deps:     apt-get install $packages" >&2
	exit 1
fi
echo "deps: installing $packages"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086 # one word for each package
apt-get install -q -y --no-install-recommends $packages
compiles || { echo "deps: $packages are installed, and still nothing compiles" >&2; exit 1; }
