package main

import (
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestDescribe(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	root := fstest.MapFS{
		"proc/cpuinfo":              text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu vme hypervisor\n\nprocessor\t: 1\nmodel name\t: Another\n"),
		"proc/sys/kernel/ostype":    text("Linux\n"),
		"proc/sys/kernel/osrelease": text("6.1.0\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": text("performance\n"),
	}
	said := describe(root)
	for _, part := range []string{"Some CPU @ 3 GHz, ", "in a virtual machine", "governor performance", "Linux 6.1.0", runtime.Version()} {
		require.Contains(t, said, part)
	}
	require.NotContains(t, said, "Another")
}

func TestDescribeNothing(t *testing.T) {
	said := describe(fstest.MapFS{})
	for _, part := range []string{runtime.GOARCH, "governor unknown", runtime.GOOS} {
		require.Contains(t, said, part)
	}
	require.NotContains(t, said, "virtual")
}
