package rdmaloop_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goCommand runs the go command in a directory, with or without go.work, and returns what
// it prints.
func goCommand(t *testing.T, dir, work string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK="+work, "GOPROXY=off", "GOFLAGS=-mod=mod")
	if work != "off" {
		cmd.Env = append(cmd.Env, "GOFLAGS=")
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestWorkspace checks that go.work has every module of the repository except two, because the
// Makefile tests the modules of go.work. The two are the tools, and the handler of another
// project, whose modules take minutes to build; make test-gnet tests it. Each module but the
// root replaces the root, because go mod tidy ignores go.work.
func TestWorkspace(t *testing.T) {
	root, err := os.Getwd()
	require.NoError(t, err)
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "go.mod" {
			found = append(found, filepath.Dir(name))
		}
		return err
	}))
	listed := strings.Fields(goCommand(t, root, filepath.Join(root, "go.work"), "list", "-m", "-f", "{{.Dir}}"))
	handler := filepath.Join(root, "examples", "minotaur")
	require.ElementsMatch(t, append(listed, filepath.Join(root, "tools"), handler), found)
	for _, dir := range append(listed, handler) {
		if dir != root {
			text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			require.NoError(t, err)
			require.Regexp(t, `(?m)^(replace)?\s*`+module+` => \.\.`, string(text), dir)
		}
	}
}

// TestWorkspaceSums checks that go.work.sum has all sums that the go command adds to it when
// it loads the list of all modules, as go doc does.
func TestWorkspaceSums(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"go.*", "*/go.*", "*/*/go.*"} {
		files, err := filepath.Glob(name)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
		}
	}
	before, err := os.ReadFile("go.work.sum")
	require.NoError(t, err)
	cmd := exec.Command("go", "list", "-m", "all")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	after, err := os.ReadFile(filepath.Join(dir, "go.work.sum"))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// TestRequirements checks which modules a user of this one gets into his build list.
func TestRequirements(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	require.NoError(t, json.Unmarshal([]byte(goCommand(t, ".", "off", "mod", "edit", "-json")), &mod))
	required := map[bool][]string{}
	for _, m := range mod.Require {
		required[m.Indirect] = append(required[m.Indirect], m.Path)
	}
	require.ElementsMatch(t, []string{"github.com/panjf2000/gnet/v2", "github.com/stretchr/testify", "go.uber.org/goleak", "golang.org/x/sys"}, required[false])
	// What these four need themselves.
	require.ElementsMatch(t, []string{
		"github.com/davecgh/go-spew",
		"github.com/panjf2000/ants/v2",
		"github.com/pmezard/go-difflib",
		"github.com/valyala/bytebufferpool",
		"go.uber.org/multierr",
		"go.uber.org/zap",
		"golang.org/x/sync",
		"gopkg.in/natefinch/lumberjack.v2",
		"gopkg.in/yaml.v3",
	}, required[true])
}

// TestLeanProgram builds a program that imports reactor and all providers, and the command
// rdmaloop, outside of the workspace, and checks that they have no other foreign module than
// golang.org/x/sys.
func TestLeanProgram(t *testing.T) {
	root, err := os.Getwd()
	require.NoError(t, err)
	sums, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module lean\n\ngo 1.26\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n",
		"go.sum":  string(sums),
		"main.go": "package main\n\nimport (\n\t_ \"" + module + "/monitor\"\n\t_ \"" + module + "/provider\"\n\t_ \"" + module + "/reactor\"\n)\n\nfunc main() {}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, program := range []string{".", module + "/cmd/rdmaloop"} {
		goCommand(t, dir, "off", "build", "-o", "lean", program)
		var modules []string
		for line := range strings.Lines(goCommand(t, dir, "off", "version", "-m", "lean")) {
			if fields := strings.Fields(line); len(fields) > 1 && (fields[0] == "dep" || fields[1] == module) {
				modules = append(modules, fields[1])
			}
		}
		slices.Sort(modules)
		require.Equal(t, []string{module, "golang.org/x/sys"}, modules, program)
	}
}
