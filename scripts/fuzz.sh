#!/bin/sh
# Runs every fuzz target of the module in turn, each for the time given (a
# duration of go test, 10s when there is none). The seeds run in go test anyway.
set -eu

GO=${GO:-go}
fuzztime=${1:-10s}

targets=0
for package in $("$GO" list ./...); do
	listed=$("$GO" test -list '^Fuzz' "$package") # by itself, so that a failure ends the run
	for target in $(echo "$listed" | grep '^Fuzz' || true); do
		echo "fuzz: $package $target"
		"$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 10x "$package"
		targets=$((targets + 1))
	done
done
echo "fuzz: $targets targets"
[ "$targets" -gt 0 ]
