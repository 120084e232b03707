//go:build linux && race

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/internal/testutil/leak"
)

// The soak takes a minute, so it runs only once: with the race detector.

func TestMain(m *testing.M) {
	if hostile.IsChild() {
		os.Exit(hostile.Child())
	}
	leak.Main(m)
}

// TestSoak checks that the shortest soak succeeds.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute: make test-full runs it, and internal/hostile has the same attacks")
	}
	var out, errors strings.Builder
	status := run(t.Context(), []string{"-duration", "20s"}, &out, &errors)
	t.Log(out.String())
	require.Zero(t, status, errors.String())
}
