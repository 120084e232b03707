//go:build !rdmacore && cgo && linux

package rdmacore_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// openWith opens the provider in another process, which finds the libraries in dir first, and
// returns the text of the error.
func openWith(t *testing.T, dir string) string {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), openArg+"=1", "LD_LIBRARY_PATH="+dir)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestLibraries checks the error for libraries that can not be used.
func TestLibraries(t *testing.T) {
	needCompiler(t)
	const prefix, suffix = "rdma: open rdmacore: provider rdmacore: not supported: no access to RDMA hardware: ",
		". rdma-core 35 or later is needed, on Debian the packages libibverbs1, librdmacm1 and ibverbs-providers. The provider soft needs none"
	dir := t.TempDir()
	library := filepath.Join(dir, "libibverbs.so.1")
	require.NoError(t, os.WriteFile(library, nil, 0o644))
	require.Equal(t, prefix+library+": file too short"+suffix, openWith(t, dir))

	// A library without the functions, such as a very old version.
	for _, name := range []string{library, filepath.Join(dir, "librdmacm.so.1")} {
		out, err := exec.Command("cc", "-shared", "-o", name, "-x", "c", "/dev/null").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.Equal(t, prefix+library+": undefined symbol: ibv_get_device_list, version IBVERBS_1.1"+suffix, openWith(t, dir))
}

// TestInstalledLibraries checks that the installed libraries have the functions.
func TestInstalledLibraries(t *testing.T) {
	if text := openWith(t, ""); strings.Contains(text, "cannot open shared object file") {
		t.Skip("rdma-core is not installed: " + text)
	} else {
		require.NotContains(t, text, "symbol")
	}
}
