package gnetrdma_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/gnetrdma/internal/gnetsuite"
)

// gnetsuiteDir is the directory of package gnetsuite in the module.
const gnetsuiteDir = "gnetrdma/internal/gnetsuite"

var allGnetTests = flag.Bool("all-gnet-tests", false, "run all tests of gnet that are about streams; takes minutes")

// TestGnetSuite runs gnet's own tests against this package.
func TestGnetSuite(t *testing.T) {
	gnetDir := output(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/panjf2000/gnet/v2")
	root := filepath.Dir(output(t, "go", "env", "GOMOD"))
	var files []gnetsuite.File
	for _, name := range []string{"gnet_test.go", "client_test.go"} {
		source, err := os.ReadFile(filepath.Join(gnetDir, name))
		require.NoError(t, err)
		files = append(files, gnetsuite.File{Name: name, Source: source})
	}
	files, err := gnetsuite.Rewrite(files)
	require.NoError(t, err)

	dir := t.TempDir()
	overlay := map[string]string{}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		require.NoError(t, os.WriteFile(path, f.Source, 0o600))
		overlay[filepath.Join(root, gnetsuiteDir, f.Name)] = path
	}
	config, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	overlayFile := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, config, 0o600))

	patterns := gnetsuite.Short
	if *allGnetTests {
		patterns = gnetsuite.All
	}
	args := []string{"test", "-json", "-vet", "off", "-overlay", overlayFile, "-timeout", "15m", "-run", strings.Join(patterns, "|"), "-skip", gnetsuite.Skip}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./"+gnetsuiteDir)...)
	cmd.Dir = root
	out, err := cmd.Output()
	passed, text := parseEvents(t, out)
	require.NoError(t, err, text)
	for _, pattern := range patterns {
		require.True(t, anyMatches(pattern, passed), "no test of gnet matches %s", pattern)
	}
}

// parseEvents returns the names of the tests that have passed, and the text that the
// tests have printed, without the log of gnet. The parameter is the output of go test
// -json.
func parseEvents(t *testing.T, out []byte) (passed []string, text string) {
	var lines strings.Builder
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var event struct{ Action, Test, Output string }
		require.NoError(t, d.Decode(&event))
		switch {
		case event.Action == "pass" && event.Test != "":
			passed = append(passed, event.Test)
		case event.Output != "" && !strings.HasPrefix(event.Output, "[gnet] ") && !strings.HasPrefix(event.Output, "{"):
			lines.WriteString(event.Output)
		}
	}
	return passed, lines.String()
}

// anyMatches reports whether go test -run would run one of the tests for the pattern.
func anyMatches(pattern string, tests []string) bool {
	levels := strings.Split(pattern, "/")
	return slices.ContainsFunc(tests, func(test string) bool {
		names := strings.Split(test, "/")
		for i, level := range levels {
			if i == len(names) || !regexp.MustCompile(level).MatchString(names[i]) {
				return false
			}
		}
		return true
	})
}

// output returns what a command prints, without the newline.
func output(t *testing.T, name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
