package gnetrdma_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
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

	run := gnetsuite.Short
	if *allGnetTests {
		run = gnetsuite.All
	}
	args := []string{"test", "-vet", "off", "-overlay", overlayFile, "-timeout", "15m", "-run", run, "-skip", gnetsuite.Skip}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./"+gnetsuiteDir)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, withoutLog(string(out)))
}

// withoutLog returns the lines of text that are not from the log of gnet.
func withoutLog(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "[gnet] ") && !strings.HasPrefix(line, "{") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// output returns what a command prints, without the newline.
func output(t *testing.T, name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
