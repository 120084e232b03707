//go:build linux

package monitor_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/monitor"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
)

func TestMain(m *testing.M) { leak.Main(m) }

// start starts an engine with two loops, one connection, and a Server.
func start(t *testing.T, o *monitor.Options) *monitor.Server {
	t.Helper()
	device, err := soft.Open(nil)
	require.NoError(t, err)
	engine, err := reactor.New(device, reactor.BaseHandler{}, &reactor.Config{NumLoops: 2})
	require.NoError(t, err)
	require.NoError(t, engine.Start())
	s, err := monitor.Listen(engine, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, engine.Shutdown(context.Background()))
		require.NoError(t, device.Close())
	})
	_, err = engine.Listen(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	require.NoError(t, err)
	return s
}

func TestRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sockets")
	s := start(t, &monitor.Options{Name: "server", Dir: dir})
	require.Equal(t, filepath.Join(dir, "server."+strconv.Itoa(os.Getpid())+".sock"), s.Addr())
	list, err := monitor.Sockets(dir)
	require.NoError(t, err)
	require.Equal(t, []string{s.Addr()}, list)
	for range 10 { // more often than Server serves clients at once
		got, err := monitor.Read(s.Addr())
		require.NoError(t, err)
		require.Equal(t, "server", got.Program)
		require.Equal(t, os.Getpid(), got.PID)
		require.Len(t, got.Loops, 2)
		require.Equal(t, "loop 1", got.Loops[1].Name)
		require.Contains(t, got.Loops[0].Counters, "turns")
		require.Len(t, got.Devices, 1)
		require.Contains(t, got.Devices[0].Counters, "sent_pkts")
	}
}

// TestClose checks that the socket is removed, and what a client of a program that has ended
// gets.
func TestClose(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	s := start(t, &monitor.Options{Dir: dir})
	require.NoError(t, s.Close())
	list, err := monitor.Sockets(dir)
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = monitor.Read(s.Addr())
	require.ErrorIs(t, err, os.ErrNotExist)

	// A program that was killed leaves its socket behind.
	name := filepath.Join(dir, "killed.1.sock")
	leave(t, name, 0)
	_, err = monitor.Read(name)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// TestReplacesOldSocket checks that the socket of a killed process with the same number is
// replaced.
func TestReplacesOldSocket(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a."+strconv.Itoa(os.Getpid())+".sock"), nil, 0o600))
	_, err := monitor.Read(start(t, &monitor.Options{Name: "a", Dir: dir}).Addr())
	require.NoError(t, err)
}

// leave leaves a socket behind, as a program that was killed some time ago.
func leave(t *testing.T, name string, age time.Duration) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: name}))
	require.NoError(t, syscall.Close(fd))
	require.NoError(t, os.Chtimes(name, time.Time{}, time.Now().Add(-age)))
}

// TestRemovesDead checks which sockets of a directory Listen removes.
func TestRemovesDead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	in := func(name string) string { return filepath.Join(dir, name) }
	leave(t, in("killed.1.sock"), time.Minute)
	leave(t, in("young.1.sock"), 0) // may be between bind and listen
	leave(t, in("killed.1.socket"), time.Minute)
	live := start(t, &monitor.Options{Name: "live", Dir: dir})
	want := []string{"killed.1.socket", filepath.Base(live.Addr()), "young.1.sock"}
	require.Equal(t, want, names(t, dir))

	leave(t, in("again.1.sock"), time.Minute)
	if os.Getuid() == 0 { // Root might remove it.
		leave(t, in("other.1.sock"), time.Minute)
		require.NoError(t, os.Chown(in("other.1.sock"), 65534, 65534))
		want = append(want, "other.1.sock")
	}
	require.NoError(t, os.Chtimes(live.Addr(), time.Time{}, time.Now().Add(-time.Hour)))
	require.NoError(t, os.Symlink(in("killed.1.socket"), in("link.sock")))
	require.NoError(t, os.WriteFile(in("file.sock"), nil, 0o600))
	require.NoError(t, os.Chtimes(in("file.sock"), time.Time{}, time.Now().Add(-time.Hour)))
	last := start(t, &monitor.Options{Name: "next", Dir: dir})
	require.ElementsMatch(t, append(want, "link.sock", "file.sock", filepath.Base(last.Addr())), names(t, dir))
	_, err := monitor.Read(live.Addr())
	require.NoError(t, err)
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestNoDirectory checks that the error of an image without /tmp says what to set.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("XDG_RUNTIME_DIR", file)
	_, err := monitor.Listen(nil, nil)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.EqualError(t, err, "monitor: no directory for the socket: mkdir "+file+
		": not a directory: set Options.Dir or XDG_RUNTIME_DIR to one that this user can make")
}

// TestListenRefuses checks directories to which others have rights, and wrong names.
func TestListenRefuses(t *testing.T) {
	open, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Chmod(open, 0o755))
	require.NoError(t, os.Symlink(t.TempDir(), link))
	for _, tt := range []struct {
		o    monitor.Options
		text string
	}{
		{monitor.Options{Dir: open}, "monitor: " + open + " must be a directory of this user with mode 0700"},
		{monitor.Options{Dir: link}, "monitor: " + link + " must be a directory of this user with mode 0700"},
		{monitor.Options{Name: "a/b"}, "monitor: name: has a slash"},
	} {
		_, err := monitor.Listen(nil, &tt.o)
		require.ErrorContains(t, err, tt.text)
	}
	if os.Getuid() == 0 {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o700))
		require.NoError(t, os.Chown(dir, 65534, 65534))
		_, err := monitor.Listen(nil, &monitor.Options{Dir: dir})
		require.ErrorContains(t, err, "must be a directory of this user")
	}
}

// TestNoSnapshot checks that Read refuses what is no snapshot.
func TestNoSnapshot(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.sock")
	ln, err := net.Listen("unix", name)
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, _ = c.Write([]byte("hello"))
			c.Close()
		}
	}()
	_, err = monitor.Read(name)
	require.ErrorContains(t, err, "the program has sent no snapshot")
}

func TestSocketsOfNobody(t *testing.T) {
	list, err := monitor.Sockets(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.Empty(t, list)
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	require.Equal(t, "/run/user/7/rdmaloop", monitor.Dir())
	t.Setenv("XDG_RUNTIME_DIR", "")
	require.Equal(t, filepath.Join(os.TempDir(), "rdmaloop-"+strconv.Itoa(os.Getuid())), monitor.Dir())
}
