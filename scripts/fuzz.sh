#!/bin/sh
# Runs every fuzz target of the module in turn, each for the given time (a duration of
# go test, 10s by default). go test runs the seeds of the targets.
set -eu

GO=${GO:-go}
fuzztime=${1:-10s}

targets=0
for package in $("$GO" list ./...); do
	listed=$("$GO" test -list '^Fuzz' "$package") # a separate command, so that a failure ends the script
	for target in $(echo "$listed" | grep '^Fuzz' || true); do
		echo "fuzz: $package $target"
		"$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 10x "$package"
		targets=$((targets + 1))
	done
done
echo "fuzz: $targets targets"
[ "$targets" -gt 0 ]
