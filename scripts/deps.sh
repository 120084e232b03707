#!/bin/sh
# Checks that everything is here that the tests need in addition to Go: a C compiler and the
# headers of rdma-core for packages with cgo, programs with which some tests compare this module
# and that the commands of documents use, and qemu for the virtual machine. Missing Debian packages are installed if the user
# is root. If something is missing at the end, this script fails: the tests that need it
# would be skipped.
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

# Succeeds if a C program with the header $1 compiles.
compiles() {
	printf '#include <%s>\nint main(void) { return 0; }\n' "$1" | $("$GO" env CC) -x c -o /dev/null - 2>/dev/null
}

# Prints the Debian packages whose files are missing.
missing() {
	compiles stdlib.h || echo gcc libc6-dev
	compiles infiniband/verbs.h || echo libibverbs-dev
	compiles rdma/rdma_cma.h || echo librdmacm-dev
	command -v ip >/dev/null || echo iproute2
	command -v curl >/dev/null || echo curl
	command -v git >/dev/null || echo git
	command -v tshark >/dev/null || echo tshark
	command -v ucx_perftest >/dev/null || echo ucx-utils
	command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
	command -v qemu-aarch64 >/dev/null || echo qemu-user
}

packages=$(echo $(missing)) # in one line
if [ -n "$packages" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	echo "deps: installing $packages"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	# shellcheck disable=SC2086 # one word for each package
	apt-get install -q -y --no-install-recommends $packages
	packages=$(echo $(missing))
fi
if [ -n "$packages" ]; then
	echo "deps: make test needs more programs. On Debian: apt-get install $packages" >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "deps: not root: tests that need another user or a network namespace will be skipped"
fi
