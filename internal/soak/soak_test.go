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

// The soak takes a minute. To save time, the test runs only in the run of all tests with
// the race detector, which finds more errors than the run without.

func TestMain(m *testing.M) {
	if hostile.IsChild() {
		os.Exit(hostile.Child())
	}
	leak.Main(m)
}

// A soak of the shortest duration reports no error.
func TestSoak(t *testing.T) {
	var out, errors strings.Builder
	status := run(t.Context(), []string{"-duration", "20s"}, &out, &errors)
	t.Log(out.String())
	require.Zero(t, status, errors.String())
}
