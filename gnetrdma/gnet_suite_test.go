//go:build linux

package gnetrdma_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

	names := gnetsuite.Short
	switch {
	case *allGnetTests:
		names = gnetsuite.All
	case testing.Short():
		names = gnetsuite.Quick // make test-full runs the others
	}
	args := []string{
		"test", "-json", "-vet", "off", "-overlay", overlayFile, "-timeout", "15m",
		"-run", gnetsuite.Pattern(names), "-skip", gnetsuite.Skip,
	}
	if raceEnabled {
		args = append(args, "-race")
	}
	waitForOtherRuns(t)
	cmd := exec.Command("go", append(args, "./"+gnetsuiteDir)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	printed, passed := readEvents(string(out))
	require.NoError(t, err, withoutLog(printed))
	for _, name := range names {
		require.True(t, passed[name], "%s has not run and passed", name)
	}
}

// waitForOtherRuns waits until no other process of this user runs gnet's tests on this
// host, because these tests use fixed ports. The lock ends with the test.
func waitForOtherRuns(t *testing.T) {
	name := fmt.Sprintf("rdmaloop-gnetsuite-%d.lock", os.Getuid())
	f, err := os.OpenFile(filepath.Join(os.TempDir(), name), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
}

// readEvents returns what the tests and the go command have printed, and the names of the
// tests that have passed. The text is the output of go test -json: an event in a line, or
// a line of the go command itself.
func readEvents(text string) (printed string, passed map[string]bool) {
	var lines []string
	passed = map[string]bool{}
	for line := range strings.Lines(text) {
		var event struct{ Action, Test, Output string }
		switch {
		case json.Unmarshal([]byte(line), &event) != nil:
			lines = append(lines, line)
		case event.Action == "pass":
			passed[event.Test] = true
		default:
			lines = append(lines, event.Output)
		}
	}
	return strings.Join(lines, ""), passed
}

// TestReadEvents checks that a test has not passed if it has failed, was skipped, or has
// not run.
func TestReadEvents(t *testing.T) {
	printed, passed := readEvents(`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"text of A\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":0.1}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0.1}
{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0.1}
exit status 1
`)
	require.Equal(t, map[string]bool{"TestA/sub": true, "TestA": true}, passed)
	require.Equal(t, "text of A\nexit status 1\n", printed)
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
