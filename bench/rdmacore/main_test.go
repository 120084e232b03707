//go:build rdmacore && cgo && linux

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain also runs the child processes of the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		exit(runChild(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestEachStepIsMeasured(t *testing.T) {
	times, err := measureAll(t.Context(), spec{Size: 64, Rounds: 10, Chunks: warmUpChunks + 1}, 2)
	require.NoError(t, err)
	for _, step := range steps {
		require.Len(t, times[step], 2, step)
		require.Positive(t, times[step][0], step)
	}
}

// TestCallsAreInterrupted checks two steps while both processes are interrupted. A call
// of package ccall may be interrupted at any instruction.
func TestCallsAreInterrupted(t *testing.T) {
	programs, err := buildPrograms(t.Context())
	require.NoError(t, err)
	defer programs.remove()
	for _, step := range []string{"linked", "provider", "reactor"} {
		s := spec{Step: step, Size: 64, Rounds: 2000, Chunks: 50, Interrupted: true}
		chunks, err := measure(t.Context(), programs, &s)
		require.NoError(t, err, step)
		require.Len(t, chunks, s.Chunks, step)
	}
}

func TestOneWayIgnoresWarmUp(t *testing.T) {
	chunks := []uint64{1, 1, 1, 1, 1, 400, 200, 300}
	require.Equal(t, 10.0, oneWay(chunks, 10))
}

func TestQuantile(t *testing.T) {
	list := []float64{5, 1, 4, 2, 3}
	require.Equal(t, 3.0, median(list))
	require.Equal(t, 2.0, quantile(list, 0.25))
	require.Equal(t, []float64{5, 1, 4, 2, 3}, list)
}
