#!/bin/sh
# Installs the programs that the tests need in addition to Go: a C compiler and its
# headers for the race detector, which uses cgo, and two programs with which some tests
# compare this module. Those tests are skipped without the programs. The Debian packages
# are installed if the user is root, and else listed.
set -eu

GO=${GO:-go}

if ! command -v "$GO" >/dev/null; then
	echo "deps: Go is not installed: install it from https://go.dev/dl/ and put it on PATH" >&2
	exit 1
fi
# Go reports an error if it is older than the version in go.mod.
if ! "$GO" list -m >/dev/null; then
	echo "deps: $("$GO" version) can not build this module, which needs $(grep '^go ' go.mod)" >&2
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
	echo "deps: programs are missing. On Debian: apt-get install $missing" >&2
fi
compiles || { echo "deps: go test -race needs a C compiler, and there is none that works" >&2; exit 1; }
