//go:build rdmacore && cgo && linux

package rdmacore_test

import (
	"os"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// TestMain checks that the tests leave no descriptors and goroutines behind. It opens
// the devices first, because librdmacm never closes them again.
func TestMain(m *testing.M) {
	if os.Getenv("RDMA_TEST_ADDR") != "" {
		if p, err := rdmacore.Open(); err == nil {
			_ = p.Close()
		}
	}
	leak.Main(m)
}
