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

func TestConformance(t *testing.T) {
	providertest.Run(t, open, providertest.Options{Addr: testAddr(t)})
}

// TestNamedDevice checks that RDMA_TEST_DEVICE names the device that has RDMA_TEST_ADDR.
func TestNamedDevice(t *testing.T) {
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Skip("RDMA_TEST_DEVICE is not set to the name of an RDMA device")
	}
	require.Equal(t, name, newRig(t).dev.Name())
}

// If there is no RDMA device, Open returns an error that says why, and what to do.
func TestOpenWithoutDevice(t *testing.T) {
	p, err := rdmacore.Open()
	if err == nil {
		require.NoError(t, p.Close())
		return
	}
	require.Nil(t, p)
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	require.Regexp(t, "no access to RDMA hardware: .*"+
		`(rdma-core 35 or later is needed|no RDMA device|able to read and write|may have no driver).*\. The provider soft needs none$`, err.Error())
}
