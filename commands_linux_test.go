package rdmaloop_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var runCommands = flag.String("commands", "", "TestCommands runs the commands of the documents: quick, or long for the documents that have long ones")

// TestCommands runs the commands of each document that are marked run or root, and its programs,
// in a fresh clone of the working tree, or, if the page makes a clone or a module, in an empty
// directory. The release is one of the working tree, whose repository takes the place of the
// address that the documents name.
func TestCommands(t *testing.T) {
	if *runCommands == "" {
		t.Skip("make pages runs it")
	}
	repository := commit(t)
	upstream, err := exec.Command("go", "env", "GOPROXY").Output()
	require.NoError(t, err)
	bin := t.TempDir()
	env := append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath -modcacherw", "GOTOOLCHAIN=local", "GONOSUMDB=*", "GOSUMDB=off",
		"GOPROXY="+releaseProxy(t)+","+strings.TrimSpace(string(upstream)), "GOMODCACHE="+t.TempDir(), "GOBIN="+bin, "PATH="+bin+":"+os.Getenv("PATH"),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+repository+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+module)
	texts := documents(t)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		script, needsRoot := pageScript(texts[name], *runCommands == "long", os.Getuid() == 0)
		if script == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if !strings.Contains(script, "git clone") && !strings.Contains(script, "go mod init") {
				out, err := exec.Command("git", "clone", "-q", repository, dir).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			runPage(t, dir, script, append(env, "LOGS="+t.TempDir()))
			if needsRoot {
				t.Skip("ran without the commands that need root")
			}
		})
	}
}

// commit returns a repository whose only commit has the files of the working tree that are not
// ignored.
func commit(t *testing.T) string {
	dir := t.TempDir()
	for _, command := range []string{
		"git ls-files -z --cached --others --exclude-standard --deduplicate | tar -c --null --ignore-failed-read -T - | tar -x -C " + dir,
		"git init -q " + dir,
		"git -C " + dir + " add -A",
		"git -C " + dir + " -c user.name=test -c user.email=test@invalid commit -q -m test",
	} {
		out, err := exec.Command("bash", "-c", command).CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
	}
	return dir
}

// prologue defines how the program in the background ends: by SIGINT, which the shell and go run
// ignore until the program has ended. The exit status of go run after a signal says nothing; runPage
// looks at what it has printed.
const prologue = `set -eu -o pipefail
job=
stop() {
	[ -z "$job" ] || { kill -INT -- -$job && wait $job || true; }
	job=
}
trap 'stop; tail -n +1 $LOGS/* 2>/dev/null || true' EXIT
set -x
`

// pageScript returns the script with the commands of a document that can run, and whether commands
// are missing that need root. It is empty if there are none.
func pageScript(document string, long, root bool) (script string, needsRoot bool) {
	found, _ := blocks(document)
	var s strings.Builder
	for i, b := range found {
		is := func(mark string) bool { return slices.Contains(b.kind, mark) }
		switch {
		case b.isProgram():
			fmt.Fprintf(&s, "cat >main.go <<'END OF PROGRAM'\n%sEND OF PROGRAM\n", b.text)
		case b.kind[0] != "sh" || is("shown") || is("long") && !long:
		case is("root") && !root:
			needsRoot = true
		case is("background"):
			fmt.Fprintf(&s, "stop\nsetsid bash -e <<'END OF PROGRAM' >$LOGS/%[2]d &\n%[1]sEND OF PROGRAM\njob=$!\n(set +x; until [ -s $LOGS/%[2]d ]; do kill -0 $job; sleep 0.05; done)\n", b.text, b.line)
		case i+1 < len(found) && slices.Contains(found[i+1].kind, "output"):
			fmt.Fprintf(&s, "{\n%s} >$LOGS/%d\ndiff - $LOGS/%[2]d <<'END OF OUTPUT'\n%sEND OF OUTPUT\n", b.text, b.line, found[i+1].text)
		default:
			s.WriteString(b.text)
		}
	}
	if !slices.ContainsFunc(found, func(b block) bool {
		return b.kind[0] == "sh" && b.kind[1] != "shown" && slices.Contains(b.kind, "long") == long
	}) {
		return "", false
	}
	return prologue + s.String(), needsRoot
}

// runPage runs the script of a document.
func runPage(t *testing.T, dir, script string, env []string) {
	for _, setting := range regexp.MustCompile(`sysctl (?:-w )?([\w.]+)=`).FindAllStringSubmatch(script, -1) {
		name := "/proc/sys/" + strings.ReplaceAll(setting[1], ".", "/")
		before, err := os.ReadFile(name)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.WriteFile(name, before, 0)) })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", script)
	c.Dir, c.Env = dir, env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	err = c.Run()
	output, _ := os.ReadFile(log.Name())
	require.NoError(t, err, "%s", output)
	require.NotRegexp(t, `(?m)^(exit status|panic:)`, string(output), "a program in the background has failed")
	t.Logf("%s", output)
}
