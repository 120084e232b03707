// Command vm runs the tests that need the kernel's RDMA stack. It boots a Debian kernel
// in qemu, with a Soft-RoCE device, and runs the cases there. The host needs no RDMA
// device, no kernel module and no hardware virtualization.
//
// Each shell script in guest/cases is a case. For each case, the command prints PASS
// vm/NAME or FAIL vm/NAME. If all cases have passed, its exit status is 0. Downloaded
// packages stay in the user's cache directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	run := flag.String("run", "", "run the cases whose name this regular expression matches")
	skip := flag.String("skip", "^$", "do not run the cases whose name this regular expression matches")
	limit := flag.Duration("limit", 20*time.Minute, "how long the guest may run")
	accel := flag.String("accel", "tcg", "how qemu runs the guest: tcg works everywhere, kvm is faster")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := test(ctx, *run, *skip, *limit, *accel, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

// test makes a guest and runs the cases whose names match the pattern run and not the
// pattern skip.
func test(ctx context.Context, run, skip string, limit time.Duration, accel string, out io.Writer) error {
	match, err := regexp.Compile(run)
	if err != nil {
		return err
	}
	noMatch, err := regexp.Compile(skip)
	if err != nil {
		return err
	}
	cases := caseNames(match, noMatch)
	if len(cases) == 0 {
		return fmt.Errorf("no case matches %q", run)
	}
	if err := needTools(ctx); err != nil {
		return err
	}
	base, err := prepareBase(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rdmaloop-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m := machine{kernel: base.kernel(), initrd: filepath.Join(dir, "initrd"), accel: accel}
	if err := writeInitrd(ctx, m.initrd, base, cases); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the guest ran too long"))
	defer cancel()
	results := newResults(cases)
	err = m.run(ctx, io.MultiWriter(out, results))
	return errors.Join(err, results.finish(out))
}
