//go:build linux

package sim_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/sim"
)

// TestMainThread checks that no world has the main thread. Without a check, about one of the
// first worlds of a program has it.
func TestMainThread(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			w := sim.New(1)
			require.NotEqual(t, unix.Getpid(), unix.Gettid())
			w.Close()
		})
	}
}
