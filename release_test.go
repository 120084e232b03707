package rdmaloop_test

import (
	"archive/zip"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// releasedVersion is the version that the tree is ready for, or the last one that was released.
const releasedVersion = "v0.1.0"

var releaseVersion = flag.String("release", "", "the version that TestReadyForRelease checks; empty means releasedVersion")

// TestReadyForRelease checks that the tree has all that belongs to a version: an entry in
// CHANGELOG.md, the file of its API, and nested modules that require it. Without the flag,
// the tree may already be ahead of the version.
func TestReadyForRelease(t *testing.T) {
	version := releasedVersion
	if *releaseVersion != "" {
		version = *releaseVersion
		require.Equal(t, releasedVersion, version, "set releasedVersion in release_test.go")
	}
	frozen := readLines(t, "api/"+version+".txt")
	changes, err := os.ReadFile("CHANGELOG.md")
	require.NoError(t, err)
	_, first, _ := strings.Cut(string(changes), "\n## ")
	if *releaseVersion != "" {
		require.True(t, strings.HasPrefix(first, version+" "), "the first entry of CHANGELOG.md is not that of %s", version)
		require.Equal(t, frozen, readLines(t, "api/next.txt"), "copy api/next.txt to api/%s.txt", version)
	}
	require.Contains(t, string(changes), "\n## "+version+" ")
	for _, dir := range published[1:] {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		require.Contains(t, string(text), module+" "+version+"\n", "%s/go.mod", dir)
	}
}

// published are the directories of the modules that users import.
var published = []string{".", "metrics"}

// TestRelease publishes the modules in a proxy of files, as a release would, and gets them in an
// empty directory, builds a program with them, and installs the command.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the library once more")
	}
	user := newUser(t, releaseProxy(t))
	user.write("main.go", `package main

import (
	"fmt"

	"`+module+`/metrics"
	"`+module+`/provider"
)

func main() {
	_, err := metrics.NewCollector(nil)
	fmt.Println(provider.Names(), err)
}
`)
	user.run("go", "mod", "init", "hello")
	user.run("go", "get", module+"@"+releasedVersion, module+"/metrics@"+releasedVersion)
	require.Contains(t, user.run("go", "run", "."), "[auto soft rdmacore] ")
	user.run("go", "install", module+"/cmd/rdmaloop@"+releasedVersion)
	require.Contains(t, user.run(filepath.Join(user.dir, "bin", "rdmaloop"), "version"), "rdmaloop "+releasedVersion+",")
}

// releaseProxy returns a GOPROXY that has the published modules as a release of the working tree
// would, and the modules that this machine has.
func releaseProxy(t *testing.T) string {
	t.Helper()
	proxy := t.TempDir()
	for _, dir := range published {
		publish(t, proxy, dir)
	}
	cache := strings.TrimSpace(goCommand(t, ".", "off", "env", "GOMODCACHE"))
	return "file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(cache) + "/cache/download"
}

// publish writes a module to a proxy. See the reference of Go modules, "GOPROXY protocol".
func publish(t *testing.T, proxy, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	path := strings.TrimSpace(strings.TrimPrefix(strings.SplitN(string(text[strings.Index(string(text), "module "):]), "\n", 2)[0], "module "))
	versions := filepath.Join(proxy, path, "@v")
	require.NoError(t, os.MkdirAll(versions, 0o777))
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, releasedVersion, time.Now().UTC().Format(time.RFC3339))
	for name, content := range map[string]string{"list": releasedVersion + "\n", releasedVersion + ".info": info, releasedVersion + ".mod": string(text)} {
		require.NoError(t, os.WriteFile(filepath.Join(versions, name), []byte(content), 0o666))
	}
	out, err := os.Create(filepath.Join(versions, releasedVersion+".zip"))
	require.NoError(t, err)
	defer out.Close()
	archive := zip.NewWriter(out)
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if name != dir && (err == nil || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		w, err := archive.Create(path + "@" + releasedVersion + "/" + filepath.ToSlash(relative))
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}))
	require.NoError(t, archive.Close())
}

// A user has an empty directory, and gets modules from a proxy only.
type user struct {
	t   *testing.T
	dir string
	env []string
}

func newUser(t *testing.T, proxy string) *user {
	dir := t.TempDir()
	u := &user{t: t, dir: dir, env: append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOPROXY="+proxy,
		"GONOSUMDB=*", "GONOSUMCHECK=1", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOMODCACHE="+filepath.Join(dir, "modules"), "GOBIN="+filepath.Join(dir, "bin"))}
	return u
}

func (u *user) write(name, text string) {
	u.t.Helper()
	require.NoError(u.t, os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o666))
}

// run runs a command, which must succeed, and returns its output.
func (u *user) run(name string, args ...string) string {
	u.t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = u.dir, u.env
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	require.NoError(u.t, err, "%s %s: %s", name, strings.Join(args, " "), stderr.String())
	return string(out)
}
