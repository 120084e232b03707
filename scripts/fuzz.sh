#!/bin/sh
# Runs every fuzz target of the MODULES, in turn. Each target
# runs for the given time (a duration of go test, 5s by default). go test runs the seeds
# of the targets.
set -eu

GO=${GO:-go}
fuzztime=${1:-5s}

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# Fuzzes the target $2 of the package $1. Before Go 1.27, go test sometimes fails with
# "context deadline exceeded" when the time is over, although no input has failed
# (go.dev/issue/75804). The target then runs again, at most three times in all.
fuzz() {
	for _ in 1 2 3; do
		if "$GO" test -run '^$' -fuzz "^$2\$" -fuzztime "$fuzztime" -fuzzminimizetime 10x "$1" >"$out" 2>&1; then
			cat "$out"
			return 0
		fi
		cat "$out"
		if grep -q 'Failing input written' "$out" || ! grep -q '^ *context deadline exceeded$' "$out"; then
			return 1
		fi
		echo "fuzz: no input has failed; $1 $2 runs again"
	done
	return 1
}

targets=0
for module in ${MODULES:-.}; do
	cd "$module"
	packages=$("$GO" list ./...) # a separate command, so that a failure ends the script
	for package in $packages; do
		listed=$("$GO" test -list '^Fuzz' "$package")
		for target in $(echo "$listed" | grep '^Fuzz' || true); do
			echo "fuzz: $package $target"
			fuzz "$package" "$target"
			targets=$((targets + 1))
		done
	done
	cd - >/dev/null
done
echo "fuzz: $targets targets"
[ "$targets" -gt 0 ]
