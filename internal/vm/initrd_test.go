package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuestFiles checks that addGuest adds exactly the requested cases.
func TestGuestFiles(t *testing.T) {
	files := tree{}
	require.NoError(t, addGuest(files, []testCase{{"rping", quick, []byte("true")}}))
	require.Contains(t, files, "init")
	require.Contains(t, files, "lib.sh")
	require.Equal(t, "true", string(files["cases/rping.sh"]))
	require.NotContains(t, files, "cases/device.sh")
}
