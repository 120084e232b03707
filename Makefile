# make test runs all checks that a change must pass. make check runs lint and the tests
# once. See CONTRIBUTING.md.

GO       ?= go
TIMEOUT  ?= 20m
FUZZTIME ?= 10s
DURATION ?= 10m
SEED     ?= 0
SYSTEMS  := darwin freebsd windows
# Modules of their own, for examples that need further modules.
MODULES  := examples/kvread examples/stream examples/gnet

# Runs a command in each of the MODULES.
in_modules = @for module in $(MODULES); do echo "cd $$module; $(1)"; (cd $$module && $(1)) || exit 1; done

NARROW   := ./cm ./cq ./internal/testutil/pairtest ./internal/wire ./poller ./provider/soft ./provider/soft/internal/connmgr ./provider/soft/internal/shm ./provider/soft/internal/udp ./reactor ./verbs/...

.PHONY: help test test-full check deps lint race nocgo narrow cross stub test-vm test-vm-long test-gnet test-stream-loss hostile soak fuzz microbench instructions comments

help:
	@echo 'make test        lint, tests with -race, without cgo, on 32 bits, other systems, test-vm;'
	@echo '                 as root on Debian it installs missing packages'
	@echo 'make test-full   test, test-gnet, test-stream-loss, test-vm-long, fuzz and soak'
	@echo 'make check       lint and tests, once; installs nothing'
	@echo 'make stub        tests of provider/rdmacore without an RDMA device; needs the headers of libibverbs'
	@echo 'make test-vm     tests with the kernel'\''s RDMA stack and other programs, in a virtual machine'
	@echo 'make hostile     attacks from other processes, while a client must lose no message; part of test'
	@echo 'make soak        the same attacks for DURATION ($(DURATION)); fails if a message was lost or a server grew'
	@echo 'make fuzz        every fuzz target for FUZZTIME ($(FUZZTIME))'
	@echo 'make instructions'
	@echo '                 instructions of the hot path, counted with valgrind; OUT=file saves the'
	@echo '                 counts, and BASE=file compares with saved counts'
	@echo 'make comments    100 random comments without their code, chosen by SEED'
	@echo 'make microbench  benchmarks of the parts of the hot path, in the format of benchstat'

test: deps lint race nocgo narrow cross stub test-vm
	@echo 'make test: all passed'

# Tests that take too long to run after every change.
test-full: test test-gnet test-stream-loss test-vm-long fuzz soak
	@echo 'make test-full: all passed'

check: lint
	$(GO) test -timeout $(TIMEOUT) ./...
	$(call in_modules,$(GO) test -timeout $(TIMEOUT) ./...)
	@echo 'make check: all passed'

# Installs the programs that are missing, if the user is root on Debian, and else lists them.
deps:
	@GO='$(GO)' scripts/deps.sh

lint:
	@unformatted=$$($$($(GO) env GOROOT)/bin/gofmt -l .); test -z "$$unformatted" || { echo "gofmt these files:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(call in_modules,$(GO) vet ./...)
	@staticcheck=$$($(GO) tool -n staticcheck) && for module in $(MODULES); do (cd $$module && $$staticcheck ./...) || exit 1; done

# The race detector needs cgo. It also detects calls of a loop from another goroutine.
race:
	CGO_ENABLED=1 $(GO) test -race -timeout $(TIMEOUT) $$($(GO) list ./...)
	$(call in_modules,CGO_ENABLED=1 $(GO) test -race -timeout $(TIMEOUT) ./...)

nocgo:
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 $(GO) test -timeout $(TIMEOUT) ./...
	$(call in_modules,CGO_ENABLED=0 $(GO) build -o /dev/null ./...)
	$(call in_modules,CGO_ENABLED=0 $(GO) test -timeout $(TIMEOUT) ./...)

# An amd64 processor can run programs for 386, unless the kernel does not support it.
narrow:
	CGO_ENABLED=0 GOARCH=386 $(GO) vet ./...
	$(call in_modules,CGO_ENABLED=0 GOARCH=386 $(GO) vet ./...)
	@dir=$$(mktemp -d) && trap 'rm -r $$dir' EXIT && \
	CGO_ENABLED=0 GOARCH=386 $(GO) test -c -o $$dir/probe ./verbs && \
	if $$dir/probe -test.run '^$$' >/dev/null; then \
		echo "CGO_ENABLED=0 GOARCH=386 $(GO) test"; \
		CGO_ENABLED=0 GOARCH=386 $(GO) test -timeout $(TIMEOUT) $(NARROW); \
	else \
		echo "narrow: this machine runs no programs for 386; they were only built"; \
	fi

# The module builds on other systems, where opening a device returns an error. Linux on
# other processors is supported.
cross:
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./...
	CGO_ENABLED=0 GOARCH=arm $(GO) vet ./...
	CGO_ENABLED=0 GOARCH=s390x $(GO) vet ./...
	@for os in $(SYSTEMS); do \
		echo "CGO_ENABLED=0 GOOS=$$os $(GO) vet ./..."; \
		CGO_ENABLED=0 GOOS=$$os $(GO) vet ./... || exit 1; \
		for module in $(MODULES); do CGO_ENABLED=0 GOOS=$$os $(GO) -C $$module vet ./... || exit 1; done; \
	done

# Tests of provider/rdmacore over a stub of libibverbs and librdmacm.
stub:
	@if printf '#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n' | $$($(GO) env CC) -E - >/dev/null 2>&1; then \
		echo "$(GO) test -tags rdmacore ./provider/rdmacore/... ./bench/rdmacore"; \
		$(GO) vet -tags rdmacore ./provider/... ./bench/rdmacore && \
		$(GO) test -tags rdmacore -timeout $(TIMEOUT) ./provider/rdmacore/... ./bench/rdmacore; \
	else \
		echo "stub: libibverbs-dev or librdmacm-dev is missing; nothing was tested"; \
	fi

# A virtual machine with Soft-RoCE, built from Debian packages; see internal/vm.
test-vm:
	$(GO) run ./internal/vm -skip 'long$$'

# All tests of gnet that are about streams, with package gnetrdma; race and nocgo run a
# part of them.
test-gnet:
	$(GO) test -count 1 -timeout $(TIMEOUT) -run TestGnetSuite ./gnetrdma -all-gnet-tests

# 1 GiB in each direction of a stream at once, while each side loses 5 % of its packets.
test-stream-loss:
	$(GO) test -count 1 -timeout 2h -run TestStreamOverLoss/0 ./provider/soft -stream-bytes 1073741824

# Cases that take longer.
test-vm-long:
	$(GO) run ./internal/vm -limit 2h -run 'long$$'

# Attacks on a server from other processes; see internal/hostile. As root it also attacks
# as another user. nocgo runs these tests too.
hostile:
	$(GO) test -count 1 -timeout $(TIMEOUT) -v ./internal/hostile

# SEED repeats the attacks of an earlier run; 0 chooses new attacks each time.
soak:
	$(GO) run ./internal/soak -duration $(DURATION) -seed $(SEED)

fuzz:
	@GO='$(GO)' MODULES='$(MODULES)' scripts/fuzz.sh $(FUZZTIME)

# Compare with: go run golang.org/x/perf/cmd/benchstat@latest old.txt new.txt
microbench:
	@$(GO) test -run '^$$' -bench . -skip Connect -benchtime 200ms -count 6 ./cq ./poller ./provider/soft ./provider/soft/internal/udp ./reactor

# Needs valgrind; see internal/instructions.
instructions:
	@$(GO) run ./internal/instructions -go '$(GO)' -base '$(BASE)' -out '$(OUT)'

comments:
	@$(GO) run ./internal/comments -seed $(SEED)
