//go:build linux && race

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/internal/hostile"
	"github.com/rdmaloop/rdmaloop/internal/leak"
)

// The tests of the module are run with the race detector and without; the soak takes
// a minute, and finds more with it.

func TestMain(m *testing.M) {
	if hostile.IsChild() {
		os.Exit(hostile.Child())
	}
	leak.Main(m)
}

// The shortest soak passes.
func TestSoak(t *testing.T) {
	var out, errors strings.Builder
	status := run(t.Context(), []string{"-duration", "20s"}, &out, &errors)
	t.Log(out.String())
	require.Zero(t, status, errors.String())
}
