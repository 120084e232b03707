//go:build cgo && linux

package rdmacore_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// openArg makes the test program open the provider and print the error.
const openArg = "RDMACORE_TEST_OPEN"

func printOpenError() {
	p, err := rdmacore.Open()
	if err == nil {
		err = p.Close()
	}
	fmt.Print(err)
}

// TestMain checks that the tests leave no descriptors and goroutines behind. It opens
// the devices first, because librdmacm never closes them again.
func TestMain(m *testing.M) {
	if os.Getenv(openArg) != "" {
		printOpenError()
		return
	}
	if os.Getenv("RDMA_TEST_ADDR") != "" {
		if p, err := rdmacore.Open(); err == nil {
			_ = p.Close()
		}
	}
	leak.Main(m)
}
