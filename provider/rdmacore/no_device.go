//go:build cgo && linux

package rdmacore

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// whyNoDevice adds to an error of librdmacm what keeps it from the devices of the host. The
// parameter root is the root of the file system, which only tests change.
func whyNoDevice(root string, err error) error {
	// Glob fails only for a wrong pattern.
	devices, _ := filepath.Glob(filepath.Join(root, "sys/class/infiniband/*"))
	if len(devices) == 0 {
		return fmt.Errorf("%w: this host has no RDMA device, or the driver of the device is not loaded", err)
	}
	files, _ := filepath.Glob(filepath.Join(root, "sys/class/infiniband_verbs/uverbs*"))
	for _, name := range append(files, "rdma_cm") {
		file := filepath.Join(root, "dev/infiniband", filepath.Base(name))
		if denied := unix.Faccessat(unix.AT_FDCWD, file, unix.R_OK|unix.W_OK, unix.AT_EACCESS); denied != nil {
			return fmt.Errorf("%w: the process must be able to read and write %s: %w", err, file, denied)
		}
	}
	return fmt.Errorf("%w: libibverbs may have no driver for %s, on Debian the package ibverbs-providers", err, filepath.Base(devices[0]))
}
