//go:build rdmacore && cgo && linux

package rdmacore_test

import (
	"os"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// TestMain checks for leaks. librdmacm keeps a context for each device until the process
// ends; the first Open creates these contexts before the check.
func TestMain(m *testing.M) {
	if os.Getenv("RDMA_TEST_ADDR") != "" {
		if p, err := rdmacore.Open(); err == nil {
			_ = p.Close()
		}
	}
	leak.Main(m)
}
