package main

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Path of this module, with a slash at the end.
const module = "github.com/rdmaloop/rdmaloop/"

// Programs for the guest's directory /go. The field make has the arguments of the go
// command that builds the program. The field dir is the directory in which the command
// runs, relative to the root of this module.
var goPrograms = []struct {
	name, dir string
	make      []string
}{
	{"echo", "examples", []string{"build", module + "examples/echo"}},
	{"bench", "bench", []string{"build", module + "bench"}},
	{"interop", "", []string{"build", module + "internal/vm/interop"}},
	{"nvmeof", "examples/nvmeof", []string{"build", module + "examples/nvmeof"}},
	{"kvread", "examples", []string{"build", module + "examples/kvread"}},
	{"stream.test", "examples/stream", []string{"test", "-c", module + "examples/stream"}},
	{"udp.test", "", []string{"test", "-c", module + "provider/soft/internal/udp"}},
	{"pairtest.test", "", []string{"test", "-c", module + "internal/testutil/pairtest"}},
	{"rdmacore.test", "", []string{"test", "-c", module + "provider/rdmacore"}},
}

// buildPrograms builds the goPrograms in a directory and returns the files.
func buildPrograms(ctx context.Context, dir string) (tree, error) {
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", strings.TrimSuffix(module, "/"))
	if err != nil {
		return nil, err
	}
	files := tree{}
	for _, program := range goPrograms {
		out := filepath.Join(dir, program.name)
		last := len(program.make) - 1
		args := append(program.make[:last:last],
			"-tags=rdmacore",
			// Without symbols, the files need less of the guest's memory.
			"-ldflags=-s -w",
			"-o", out, program.make[last])
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
