//go:build rdmacore && cgo && linux

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

// testAddr returns the address of a device, from RDMA_TEST_ADDR. Without that variable
// the tests of devices are skipped. With it, a missing device is a failure.
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

// rxe returns the outcomes in which the kernel's software device deviates from the
// standard. A receive buffer that is too short or not accessible is a local QP operation
// error at the responder and a remote operation error at the requester. A WRITE with
// immediate consumes a buffer before its key is checked. A wrong key of a payload is a
// local QP operation error. librxe refuses to post misaligned atomics.
func rxe() map[providertest.Violation]providertest.Outcome {
	return map[providertest.Violation]providertest.Outcome{
		providertest.RecvTooShort:     {Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocQPOpErr},
		providertest.RecvInaccessible: {Requester: verbs.StatusRemOpErr, Responder: verbs.StatusLocQPOpErr},
		providertest.WriteImmAccess:   {Requester: verbs.StatusRemAccessErr, Responder: verbs.StatusRemAccessErr},
		providertest.PayloadKey:       {Requester: verbs.StatusLocQPOpErr},
		providertest.Misaligned:       {Refused: true},
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

// The device that RDMA_TEST_DEVICE names must own the address.
func TestNamedDevice(t *testing.T) {
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Skip("RDMA_TEST_DEVICE is not set to the name of an RDMA device")
	}
	require.Equal(t, name, newRig(t).dev.Name())
}

// Without a device Open returns a *verbs.FeatureError with the reason.
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
