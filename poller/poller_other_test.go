//go:build !linux

package poller_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/rdmaloop/rdmaloop/poller"
	"github.com/stretchr/testify/require"
)

func TestUnsupported(t *testing.T) {
	_, err := poller.New(8)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, runtime.GOOS)
}
