package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Programs for the guest's directory /go, with the directories of their packages below the
// root of this module. A directory may belong to a module of its own. A name that ends in
// .test means the tests of the package.
var goPrograms = []struct{ name, dir string }{
	{"echo", "examples/echo"},
	{"bench", "bench"},
	{"rdmaloop", "cmd/rdmaloop"},
	{"interop", "internal/vm/interop"},
	{"nvmeof", "examples/nvmeof"},
	{"nvmeof-target.test", "examples/nvmeof/target"},
	{"kvread", "examples/kvread"},
	{"stream.test", "examples/stream"},
	{"udp.test", "provider/soft/internal/udp"},
	{"pairtest.test", "internal/testutil/pairtest"},
	{"rdmacore.test", "provider/rdmacore"},
}

// buildPrograms builds the goPrograms that the cases use, in a directory, and returns the
// files.
func buildPrograms(ctx context.Context, dir string, cases []testCase) (tree, error) {
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/rdmaloop/rdmaloop")
	if err != nil {
		return nil, err
	}
	files := tree{}
	for _, program := range goPrograms {
		if !uses(cases, "/go/"+program.name) {
			continue
		}
		make := []string{"build"}
		if strings.HasSuffix(program.name, ".test") {
			make = []string{"test", "-c"}
		}
		out := filepath.Join(dir, program.name)
		args := append(make,
			// Without symbols, the files need less of the guest's memory.
			"-ldflags=-s -w",
			"-o", out, ".")
		if err := command(ctx, filepath.Join(strings.TrimSpace(root), program.dir), "go", args...); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		files[path.Join("go", program.name)] = data
	}
	return files, nil
}

// writeInitrd writes the guest's archive to a file. It has the base, the Go programs, the
// scripts and the cases.
func writeInitrd(name string, b base, programs tree, cases []testCase) error {
	files := maps.Clone(programs)
	if err := addGuest(files, cases); err != nil {
		return err
	}
	archive, err := os.ReadFile(b.archive())
	if err != nil {
		return err
	}
	out := bytes.NewBuffer(archive)
	if err := files.writeTo(out); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}
