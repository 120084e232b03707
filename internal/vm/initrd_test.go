package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCaseNames(t *testing.T) {
	none := regexp.MustCompile("^$")
	require.Contains(t, caseNames(regexp.MustCompile(""), none), "device")
	require.Equal(t, []string{"rping"}, caseNames(regexp.MustCompile("^rping$"), none))
	require.Equal(t, []string{"rping"}, caseNames(regexp.MustCompile("^rping"), regexp.MustCompile("_to_")))
	require.Empty(t, caseNames(regexp.MustCompile("no such case"), none))
}

// TestGuestFiles checks that addGuest adds exactly the requested cases.
func TestGuestFiles(t *testing.T) {
	files := tree{}
	require.NoError(t, addGuest(files, []string{"rping"}))
	require.Contains(t, files, "init")
	require.Contains(t, files, "lib.sh")
	require.Contains(t, files, "cases/rping.sh")
	require.NotContains(t, files, "cases/device.sh")
}
