//go:build linux

package leak_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Time limits for Settle. A test uses maxWait if a goroutine has to end first.
const (
	noWait  = 0
	maxWait = 30 * time.Second
)

func TestNothingLeft(t *testing.T) {
	before := leak.Snapshot()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
	require.Empty(t, before.Settle(noWait))
	before.Check(t)
}

func TestDescriptorLeft(t *testing.T) {
	before := leak.Snapshot()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	require.Regexp(t, `^descriptor \d+ -> anon_inode:\[eventfd\]\n$`, before.Settle(noWait))

	require.NoError(t, unix.Close(fd))
	require.Empty(t, before.Settle(noWait))
}

func TestMappingLeft(t *testing.T) {
	before := leak.Snapshot()
	mem := mapMemfd(t)
	require.Regexp(t, `^mapping \S+ rw-s .*/memfd:left-behind \(deleted\)\n$`, before.Settle(noWait))

	require.NoError(t, unix.Munmap(mem))
	require.Empty(t, before.Settle(noWait))
}

func TestGoroutineLeft(t *testing.T) {
	before := leak.Snapshot()
	stop := make(chan struct{})
	go func() { <-stop }()
	require.Contains(t, before.Settle(noWait), "TestGoroutineLeft")

	close(stop)
	require.Empty(t, before.Settle(maxWait))
}

func TestWaitsUntilSettled(t *testing.T) {
	before := leak.Snapshot()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	go func() {
		_, _ = r.Close(), w.Close()
	}()
	require.Empty(t, before.Settle(maxWait))
}

func TestExistingResourceIsNoLeak(t *testing.T) {
	mem := mapMemfd(t)
	defer unix.Munmap(mem)
	before := leak.Snapshot()
	require.Empty(t, before.Settle(noWait))
}

func TestExitCode(t *testing.T) {
	var fd int
	open := func() { fd, _ = unix.Eventfd(0, unix.EFD_CLOEXEC) }
	for name, c := range map[string]struct {
		do         func()
		code, want int
		output     string
	}{
		"clean":              {do: func() {}, want: 0},
		"failed":             {do: func() {}, code: 2, want: 2},
		"leaking":            {do: open, want: 1, output: "eventfd"},
		"failed and leaking": {do: open, code: 2, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			fd = -1
			var out strings.Builder
			require.Equal(t, c.want, leak.Run(runner{c.do, c.code}, &out, noWait))
			require.Contains(t, out.String(), c.output)
			require.Equal(t, c.output == "", out.Len() == 0, out.String())
			if fd >= 0 {
				require.NoError(t, unix.Close(fd))
			}
		})
	}
}

// A runner replaces a *testing.M.
type runner struct {
	do   func()
	code int
}

func (r runner) Run() int {
	r.do()
	return r.code
}

func mapMemfd(t *testing.T) []byte {
	t.Helper()
	fd, err := unix.MemfdCreate("left-behind", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, 4096))
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	return mem
}
