//go:build rdmacore && cgo && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are the two programs whose processes are measured.
type programs struct {
	linked string // this program
	dir    string // of the other program and of the stub as a library
}

// versions has the versions of the symbols of libibverbs and librdmacm that the provider
// needs; see ld(1), VERSION.
const versions = `
IBVERBS_1.0 { global: ibv_create_comp_channel; ibv_destroy_comp_channel; };
IBVERBS_1.1 { global: ibv_*; };
IBVERBS_1.11 { global: _ibv_query_gid_table; };
RDMACM_1.0 { global: rdma_*; };
RDMACM_1.2 { global: rdma_establish; rdma_init_qp_attr; };
STUB { global: stub_start; stub_meet; local: *; };
`

// buildPrograms builds the program that is not linked to the stub, and makes the stub a
// library with both names that the provider opens.
func buildPrograms(ctx context.Context) (*programs, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rdmacore")
	if err != nil {
		return nil, err
	}
	p := &programs{linked: self, dir: dir}
	if err := p.build(ctx); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

func (p *programs) build(ctx context.Context) error {
	const name = "github.com/rdmaloop/rdmaloop/bench/rdmacore"
	source, err := output(ctx, "go", "list", "-f", "{{.Dir}}", name)
	if err != nil {
		return err
	}
	if _, err := output(ctx, "go", "build", "-o", p.opened(), name); err != nil {
		return err
	}
	script := filepath.Join(p.dir, "versions")
	if err := os.WriteFile(script, []byte(versions), 0o666); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(source), "stub_*.c"))
	if err != nil {
		return err
	}
	library := filepath.Join(p.dir, "libibverbs.so.1")
	args := append([]string{"-shared", "-fPIC", "-O2", "-pthread", "-Wl,--version-script=" + script, "-o", library}, files...)
	if _, err := output(ctx, "cc", args...); err != nil {
		return err
	}
	return os.Symlink(library, filepath.Join(p.dir, "librdmacm.so.1"))
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

func (p *programs) opened() string { return filepath.Join(p.dir, "opened") }

// of returns the program that runs a step, and a variable for its environment.
func (p *programs) of(step string) (program, env string) {
	if step == "c" || step == "linked" {
		return p.linked, "LD_LIBRARY_PATH="
	}
	return p.opened(), "LD_LIBRARY_PATH=" + p.dir
}

func (p *programs) remove() error { return os.RemoveAll(p.dir) }
