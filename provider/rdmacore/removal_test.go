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

// link starts the command "rdma link" with the given arguments, and returns a channel.
// The result of the command is sent to that channel when the command has ended.
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

// A device with a listener and a connection is removed, and then added again. The
// process must be able to use the new device.
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
	// The library releases a removed device only during the next Open and Close.
	require.NoError(t, open(t).Close())
}
