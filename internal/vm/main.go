// Command vm runs the tests that need the kernel's RDMA stack. It boots a Debian kernel
// in qemu, with a Soft-RoCE device, and runs the cases there. The host needs no RDMA
// device, no kernel module and no hardware virtualization.
//
// Each shell script in guest/cases is a case, and belongs to a class: quick, full, long or
// measure. For each case, the command prints PASS vm/NAME or FAIL vm/NAME, and at the end
// which cases took longest. If all cases have passed, its exit status is 0. Downloaded
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
	"time"
)

func main() {
	run := flag.String("run", "", "run the cases whose name this regular expression matches")
	class := flag.String("class", "", "run the cases of a class: quick, full, long or all")
	limit := flag.Duration("limit", 30*time.Minute, "how long the guest may run")
	accel := flag.String("accel", "tcg", "how qemu runs the guest: tcg works everywhere, kvm is faster")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cases, err := selectCases(*class, *run)
	if err == nil {
		err = test(ctx, cases, *limit, *accel, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

// test makes a guest and runs the cases.
func test(ctx context.Context, cases []testCase, limit time.Duration, accel string, out io.Writer) error {
	start := time.Now()
	if err := needTools(); err != nil {
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
	packages := time.Now()
	programs, err := buildPrograms(ctx, dir, cases)
	if err != nil {
		return err
	}
	m := machine{kernel: base.kernel(), initrd: filepath.Join(dir, "initrd"), accel: accel}
	if err := writeInitrd(m.initrd, base, programs, cases); err != nil {
		return err
	}
	built := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the guest ran too long"))
	defer cancel()
	results := newResults(cases)
	err = m.run(ctx, io.MultiWriter(out, results))
	err = errors.Join(err, results.finish(out))
	fmt.Fprintf(out, "vm: %.0f s for the packages, %.0f s to build programs, %.0f s in the guest\n",
		packages.Sub(start).Seconds(), built.Sub(packages).Seconds(), time.Since(built).Seconds())
	return err
}
