//go:build rdmacore && cgo && linux

package rdmacore_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
)

// link runs the rdma tool's link command, and returns where its end is told.
func link(args string) (done chan error) {
	done = make(chan error, 1)
	go func() {
		done <- exec.Command("rdma", append([]string{"link"}, strings.Fields(args)...)...).Run()
	}()
	return done
}

func finished(t *testing.T, what string, done chan error) {
	t.Helper()
	select {
	case err := <-done:
		require.NoError(t, err, what)
	case <-time.After(patience):
		require.FailNow(t, "gave up waiting", what)
	}
}

// A device is removed below a listener and a connection, and comes back. The removal of
// rxe ends only when the process has closed everything; then the process can go on with
// the device as if it were a new one.
func TestDeviceReturns(t *testing.T) {
	dev, netdev := os.Getenv("RDMA_TEST_REMOVE"), os.Getenv("RDMA_TEST_NETDEV")
	if dev == "" {
		t.Skip("RDMA_TEST_REMOVE names no Soft-RoCE device that may be removed")
	}
	var removal chan error
	for range 3 {
		t.Run("until the device is removed", func(t *testing.T) {
			r := newRig(t)
			listener := r.listen(cm.TCP, r.addr)
			a, _ := r.pair()
			removal = link("delete " + dev)
			r.await(listener, cm.DeviceRemoval)
			r.await(a.id, cm.DeviceRemoval)
		})
		finished(t, "the removal", removal)
		finished(t, "the device to come back", link("add "+dev+" type rxe netdev "+netdev))
	}
	// The library forgets the device of the last round.
	require.NoError(t, open(t).Close())
}
