//go:build rdmacore && cgo && linux

package rdmacore_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
	"github.com/rdmaloop/rdmaloop/verbs/verbstest"
)

// testAddr is the address of a device, from RDMA_TEST_ADDR. Without it tests of
// devices are left out; with it, a device that is not there is a failure.
func testAddr(t *testing.T) netip.Addr {
	t.Helper()
	text := os.Getenv("RDMA_TEST_ADDR")
	if text == "" {
		t.Skip("RDMA_TEST_ADDR names no address of an RDMA device")
	}
	addr, err := netip.ParseAddr(text)
	require.NoError(t, err)
	return addr
}

func open(t *testing.T) cm.Provider {
	t.Helper()
	p, err := rdmacore.Open()
	require.NoError(t, err)
	return p
}

// rxe is how the kernel's software device deviates from the standard: a message
// that does not fit is an error of the responder's own, on both ends, and a
// WRITE with immediate has taken its buffer before its key is looked at. A
// payload's key that is wrong is an error of the queue pair, and librxe does not
// post atomics that are misaligned.
func rxe() map[verbstest.Violation]verbstest.Outcome {
	return map[verbstest.Violation]verbstest.Outcome{
		verbstest.RecvTooShort:     {Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocQPOpErr},
		verbstest.RecvInaccessible: {Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocQPOpErr},
		verbstest.WriteImmAccess:   {Requester: verbs.StatusRemAccessErr, Responder: verbs.StatusRemAccessErr},
		verbstest.PayloadKey:       {Requester: verbs.StatusLocQPOpErr},
		verbstest.Misaligned:       {Refused: true},
	}
}

// rxeVendor is the vendor id of that device.
const rxeVendor = "0xffffff"

func TestConformance(t *testing.T) {
	opts := verbstest.Options{Addr: testAddr(t)}
	if newRig(t).dev.Attr().Vendor == rxeVendor {
		opts.Deviations = rxe()
	}
	verbstest.Run(t, open, opts)
}

// The device that RDMA_TEST_DEVICE names is the one that owns the address.
func TestNamedDevice(t *testing.T) {
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Skip("RDMA_TEST_DEVICE names no RDMA device")
	}
	require.Equal(t, name, newRig(t).dev.Name())
}

// Without a device there is one kind of error, and it says why.
func TestOpenWithoutDevice(t *testing.T) {
	p, err := rdmacore.Open()
	if err == nil {
		require.NoError(t, p.Close())
		return
	}
	require.Nil(t, p)
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	require.ErrorContains(t, err, "no access to RDMA hardware")
}
