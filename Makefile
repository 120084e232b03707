# make test runs all checks that a change must pass. make check runs lint and the tests
# once. See CONTRIBUTING.md.

GO       ?= go
TIMEOUT  ?= 20m
FUZZTIME ?= 5s
DURATION ?= 5m
SEED     ?= 0
SYSTEMS  := darwin freebsd windows
# The directories of the modules in go.work. Only commands in the root use go.work: each
# module is tested with the versions that its users get.
MODULES   = $(or $(shell GOWORK=$(CURDIR)/go.work $(GO) list -m -f '{{.Dir}}'),$(error go list -m names no module))
export GOWORK = off

# Prints how long the target took, beside its limit on two idle processors. A busy machine
# may take longer, so this is no failure.
START     := $(shell date +%s)
passed     = @echo "make $@: all passed in $$(($$(date +%s) - $(START))) s; at most $(1) on two idle processors"

# Runs a command in each of the MODULES.
in_modules = @for module in $(MODULES); do echo "cd $$module; $(1)"; (cd $$module && $(1)) || exit 1; done
# Runs go test in the directories $(1), and prints what was skipped and what took longest.
tests_in   = $(GO) run ./internal/testrun -go '$(GO)' -dirs "$(1)" -- -timeout $(TIMEOUT)
tests      = $(call tests_in,$(MODULES))

NARROW   := ./cm ./cq ./internal/testutil/pairtest ./internal/wire ./poller ./provider/soft ./provider/soft/internal/connmgr ./provider/soft/internal/madcm ./provider/soft/internal/qp ./provider/soft/internal/rcpath ./provider/soft/internal/shm ./provider/soft/internal/shmpath ./provider/soft/internal/udp ./provider/soft/internal/udpath ./provider/soft/internal/unixcm ./reactor ./reactortest ./verbs/...

# The newest release of Go. The tests usually run with the older one that is supported.
NEWEST   := go1.27.3
# Packages whose tests run in an emulator of arm64, and tests that it can not run.
ARM64    := ./cm ./cq ./internal/psn ./internal/slots ./internal/timerheap ./internal/wire ./provider/soft/internal/shm ./verbs/...

.PHONY: help test test-full test-long check deps lint race nocgo narrow cross cross-all stub \
	pages whole test-vm test-vm-full test-vm-long test-gnet test-stream-loss newest arm64 vulnerabilities api release-check hostile soak fuzz microbench instructions

help:
	@echo 'make check       lint, and every test once without the long ones and the attacks of'
	@echo '                 internal/hostile; installs nothing'
	@echo 'make test        all of these with the race detector; what differs without cgo, on 32 bits and on'
	@echo '                 other systems; and test-vm. As root on Debian it installs missing packages'
	@echo 'make test-full   test, the long tests, test-gnet, test-vm-full, all other systems, the newest Go,'
	@echo '                 arm64, fuzz and soak'
	@echo 'make test-long   what takes longer than that'
	@echo 'make stub        tests of provider/rdmacore over a stub of rdma-core in place of an RDMA device'
	@echo 'make test-vm     tests with the kernel'\''s RDMA stack and other programs, in a virtual machine'
	@echo 'make pages       the commands of the documents, in a fresh clone'
	@echo 'make hostile     attacks from other processes, while a client must lose no message'
	@echo 'make soak        the same attacks for DURATION ($(DURATION)); fails if a message was lost or a server grew'
	@echo 'make fuzz        every fuzz target for FUZZTIME ($(FUZZTIME))'
	@echo 'make microbench  benchmarks of the parts of the hot path, in the format of benchstat'
	@echo 'make instructions'
	@echo '                 instructions of the hot path, counted with valgrind; OUT=file saves the'
	@echo '                 counts, and BASE=file compares with saved counts'

# The attacks of internal/hostile take as long as all other tests: make test runs them.
check: lint
	@$(call tests_in,$(filter-out $(CURDIR)/internal/hostile,$(MODULES))) -short -count=1 ./...
	$(call passed,90 s with a warm build cache)

test: deps lint race nocgo narrow cross stub pages test-vm
	$(call passed,900 s)

test-full: test whole test-gnet test-vm-full cross-all newest arm64 fuzz soak
	$(call passed,3600 s)

# Hours: soak with another duration, 1 GiB in each direction of a stream that loses packets,
# and cases of the virtual machine.
test-long: test-stream-loss test-vm-long
	$(MAKE) soak DURATION=4h
	$(call passed,some hours)

# Installs the programs that are missing, if the user is root on Debian, and else lists them.
deps:
	@GO='$(GO)' scripts/deps.sh

lint:
	@unformatted=$$($$($(GO) env GOROOT)/bin/gofmt -l .); test -z "$$unformatted" || { echo "gofmt these files:"; echo "$$unformatted"; exit 1; }
	$(call in_modules,$(GO) vet ./...)
	@staticcheck=$$($(GO) -C tools tool -n staticcheck) && for module in $(MODULES); do (cd $$module && $$staticcheck ./...) || exit 1; done

# The race detector needs cgo. It also detects calls of a loop from another goroutine. By
# default a process with the race detector waits for a second before it ends.
race: export GORACE = atexit_sleep_ms=0
race:
	@echo 'race: every test without the long ones'
	@CGO_ENABLED=1 $(tests) -race -short ./...

# Builds everything without cgo, and tests the packages that have other files without cgo and
# without the race detector: system calls in assembly, and tests that count allocations.
FILES := {{.ImportPath}} {{.GoFiles}} {{.CgoFiles}} {{.SFiles}} {{.TestGoFiles}} {{.XTestGoFiles}}
nocgo:
	$(call in_modules,CGO_ENABLED=0 $(GO) build -o /dev/null ./...)
	@dir=$$(mktemp -d) && trap 'rm -r $$dir' EXIT && for module in $(MODULES); do cd $$module && \
		CGO_ENABLED=1 $(GO) list -race -f '$(FILES)' ./... | sort >$$dir/with && \
		CGO_ENABLED=0 $(GO) list -f '$(FILES)' ./... | sort >$$dir/without && \
		packages=$$(comm -13 $$dir/with $$dir/without | cut -d ' ' -f 1) || exit 1; \
		test -z "$$packages" || { cd $(CURDIR) && CGO_ENABLED=0 $(call tests_in,$$module) -short $$packages; } || exit 1; \
	done

# An amd64 processor can run programs for 386, unless the kernel does not support it. Another
# failure of the first program is an error.
narrow:
	$(call in_modules,CGO_ENABLED=0 GOARCH=386 $(GO) vet ./...)
	@if out=$$(CGO_ENABLED=0 GOARCH=386 $(GO) test -run '^$$' ./verbs 2>&1); then \
		echo "CGO_ENABLED=0 GOARCH=386 $(GO) test"; \
		CGO_ENABLED=0 GOARCH=386 $(call tests_in,.) -short $(NARROW); \
	elif echo "$$out" | grep -q 'exec format error'; then \
		echo "narrow: this kernel runs no programs for 386; they were only built"; \
	else \
		echo "$$out"; exit 1; \
	fi

# The root builds on other systems, where opening a device returns an error, and so does what
# users import. Linux on other processors is supported. cross-all has the other modules, whose
# dependencies take minutes to build, for one of these.
cross:
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./...
	CGO_ENABLED=0 GOOS=darwin $(GO) vet ./...

cross-all:
	$(call in_modules,CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./...)
	CGO_ENABLED=0 GOARCH=arm $(GO) vet ./...
	CGO_ENABLED=0 GOARCH=s390x $(GO) vet ./...
	@for os in $(SYSTEMS); do for module in . metrics; do \
		echo "cd $$module; CGO_ENABLED=0 GOOS=$$os $(GO) vet ./..."; \
		CGO_ENABLED=0 GOOS=$$os $(GO) -C $$module vet ./... || exit 1; \
	done; done

# The root with the newest release of Go, if it can be downloaded.
newest:
	@if GOTOOLCHAIN=$(NEWEST) $(GO) version; then \
		GOTOOLCHAIN=$(NEWEST) $(GO) vet ./... && GOTOOLCHAIN=$(NEWEST) $(call tests_in,.) -short -count=1 ./...; \
	else echo "newest: $(NEWEST) can not be downloaded here"; fi

# qemu-user runs programs of arm64. It does not have all system calls of Linux.
arm64:
	@command -v qemu-aarch64 >/dev/null || { echo "arm64: on Debian: apt-get install qemu-user"; exit 1; }
	@CGO_ENABLED=0 GOARCH=arm64 GOFLAGS=-exec=qemu-aarch64 $(call tests_in,.) -short -count=1 $(ARM64)
	@CGO_ENABLED=0 GOARCH=arm64 GOFLAGS=-exec=qemu-aarch64 $(call tests_in,.) -short -count=1 -run 'TestConformance$$' ./provider/soft

# Needs the internet, for the list of vulnerabilities.
vulnerabilities:
	@govulncheck=$$($(GO) -C tools tool -n govulncheck) && for module in $(MODULES); do (cd $$module && $$govulncheck ./...) || exit 1; done

# Writes the API as text, for the review of a change.
api:
	$(GO) test -count=1 -run 'TestAPI$$' . -update-api

# The commands of the documents, in a fresh clone. Those marked long belong to whole.
pages:
	@$(call tests_in,.) -count=1 -run TestCommands . -commands quick

# What a tag needs: make release-check VERSION=v0.1.0
release-check:
	$(GO) test -count=1 -run 'TestReadyForRelease|TestAPI' . -release $(VERSION)

# Tests of provider/rdmacore over a stub of libibverbs and librdmacm, and in a build that is
# linked to the libraries. They need the headers.
stub:
	@printf '#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n' | $$($(GO) env CC) -E - >/dev/null 2>&1 || \
		{ echo "stub: headers are missing. On Debian: apt-get install gcc libc6-dev libibverbs-dev librdmacm-dev"; exit 1; }
	$(GO) vet -tags rdmacore ./provider/...
	$(GO) -C bench vet -tags rdmacore ./rdmacore
	@CGO_ENABLED=1 $(call tests_in,.) -tags rdmacore ./provider/rdmacore/...
	@CGO_ENABLED=1 $(call tests_in,bench) -tags rdmacore ./rdmacore

# Every test, with the long ones, and each benchmark once, and a soak test with the race
# detector.
whole:
	@$(tests) -count=1 -bench . -benchtime 1x ./...
	@$(call tests_in,.) -count=1 -run TestCommands . -commands long
	@CGO_ENABLED=1 $(call tests_in,internal/hostile) -race -count=1 ./soak

# A virtual machine with Soft-RoCE, built from Debian packages; see internal/vm.
test-vm:
	$(GO) run ./internal/vm -class quick

test-vm-full:
	$(GO) run ./internal/vm -class full

test-vm-long:
	$(GO) run ./internal/vm -class long -limit 4h

# All tests of gnet that are about streams, with package gnetrdma; the other tests run a
# part of them. And a handler of another project, whose modules take minutes to build.
test-gnet:
	@$(call tests_in,.) -count=1 -run TestGnetSuite ./gnetrdma -all-gnet-tests
	$(GO) -C examples/minotaur vet ./...
	@CGO_ENABLED=1 $(call tests_in,examples/minotaur) -race -count=1 ./...

# 1 GiB in each direction of a stream at once, while each side loses 5 % of its packets.
test-stream-loss:
	@$(GO) run ./internal/testrun -go '$(GO)' -- -count 1 -timeout 2h -run TestStreamOverLoss/0 ./provider/soft -stream-bytes 1073741824

# Attacks on a server from other processes; see internal/hostile. As root it also attacks
# as another user. The other tests run the short ones.
hostile:
	@$(call tests_in,internal/hostile) -count=1 .

# SEED repeats the attacks of an earlier run; 0 chooses new attacks each time.
soak:
	$(GO) -C internal/hostile run ./soak -duration $(DURATION) -seed $(SEED)

fuzz:
	@GO='$(GO)' MODULES='$(MODULES)' scripts/fuzz.sh $(FUZZTIME)

# Compare with: go run golang.org/x/perf/cmd/benchstat@latest old.txt new.txt
microbench:
	@$(GO) test -run '^$$' -bench . -skip Connect -benchtime 200ms -count 6 ./cq ./poller ./provider/soft ./provider/soft/internal/qp ./provider/soft/internal/rcpath ./provider/soft/internal/udp ./reactor

# Needs valgrind; see internal/instructions.
instructions:
	@$(GO) run ./internal/instructions -go '$(GO)' -base '$(BASE)' -out '$(OUT)'
