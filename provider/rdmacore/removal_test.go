//go:build cgo && linux

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

// link runs the command "rdma link" in the background. Its result is sent to the
// channel.
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
	case <-time.After(waitLimit):
		require.FailNow(t, "gave up waiting", what)
	}
}

// A device that was removed and added again can be used.
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
	// The library releases a removed device only at the next Open and Close.
	require.NoError(t, open(t).Close())
}
