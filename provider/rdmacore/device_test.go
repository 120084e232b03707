//go:build cgo && linux

package rdmacore_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/providertest"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// testAddr returns the device's address from the environment variable RDMA_TEST_ADDR. If
// the variable is not set, testAddr skips the test.
func testAddr(t *testing.T) netip.Addr {
	t.Helper()
	text := os.Getenv("RDMA_TEST_ADDR")
	if text == "" {
		t.Skip("RDMA_TEST_ADDR is not set to the address of an RDMA device")
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

// rxe returns the outcomes in which the device rxe of Linux 6.1 differs from the
// standard. For memory windows, these are the causes in the driver:
//
//   - It checks an access to a window against the bounds of the region.
//   - It does not compare the queue pair of a window when a key is invalidated.
//   - It acknowledges a SEND with invalidate before it checks whether the key can be
//     invalidated.
//   - When it retransmits requests that were posted before a bind, it executes the bind
//     again.
func rxe() map[providertest.Violation]providertest.Outcome {
	return map[providertest.Violation]providertest.Outcome{
		providertest.RecvTooShort:     {Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocQPOpErr},
		providertest.RecvInaccessible: {Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocQPOpErr},
		providertest.WriteImmAccess:   {Requester: verbs.StatusRemAccessErr, Responder: verbs.StatusRemAccessErr},
		providertest.PayloadKey:       {Requester: verbs.StatusLocQPOpErr},
		providertest.Misaligned:       {Refused: true},

		providertest.WindowBounds:       {Executed: true},
		providertest.LocalOtherQP:       {Executed: true},
		providertest.RemoteOtherQP:      {Executed: true},
		providertest.RemoteInvalidation: {Responder: verbs.StatusRemInvReqErr},
		providertest.BindRepeated:       {Requester: verbs.StatusWRFlushErr},
	}
}

// rxeVendor is the vendor id of rxe.
const rxeVendor = "0xffffff"

func TestConformance(t *testing.T) {
	opts := providertest.Options{Addr: testAddr(t)}
	if newRig(t).dev.Attr().Vendor == rxeVendor {
		opts.Deviations = rxe()
	}
	providertest.Run(t, open, opts)
}

// TestNamedDevice checks that RDMA_TEST_DEVICE names the device that has RDMA_TEST_ADDR.
func TestNamedDevice(t *testing.T) {
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Skip("RDMA_TEST_DEVICE is not set to the name of an RDMA device")
	}
	require.Equal(t, name, newRig(t).dev.Name())
}

// If there is no RDMA device, Open returns an error with the reason.
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
