//go:build rdmacore && cgo && linux

package rdmacore_test

import (
	"os"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/leak"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// TestMain looks for leaks. What librdmacm itself keeps for as long as it is
// loaded, a context for each device, is opened before.
func TestMain(m *testing.M) {
	if os.Getenv("RDMA_TEST_ADDR") != "" {
		if p, err := rdmacore.Open(); err == nil {
			_ = p.Close()
		}
	}
	leak.Main(m)
}
