//go:build cgo && linux

package rdmacore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// TestWhyNoDevice checks the reasons why librdmacm finds no device.
func TestWhyNoDevice(t *testing.T) {
	root := t.TempDir()
	add := func(name string) {
		name = filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	check := func(want string) {
		t.Helper()
		err := rdmacore.WhyNoDevice(root, unix.ENODEV)
		require.EqualError(t, err, "no such device: "+want)
		require.ErrorIs(t, err, unix.ENODEV)
	}
	denied := func(file, why string) {
		t.Helper()
		check("the process must be able to read and write " + filepath.Join(root, "dev/infiniband", file) + ": " + why)
	}
	check("this host has no RDMA device, or the driver of the device is not loaded")
	add("sys/class/infiniband/card0")
	add("sys/class/infiniband_verbs/uverbs3")
	add("sys/class/infiniband_verbs/abi_version")
	denied("uverbs3", "no such file or directory")
	add("dev/infiniband/uverbs3")
	denied("rdma_cm", "no such file or directory")
	add("dev/infiniband/rdma_cm")
	check("libibverbs may have no driver for card0, on Debian the package ibverbs-providers")

	if os.Geteuid() == 0 {
		t.Skip("root may read and write every file")
	}
	require.NoError(t, os.Chmod(filepath.Join(root, "dev/infiniband/uverbs3"), 0o400))
	denied("uverbs3", "permission denied")
}
