package fragment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

func TestFirstAndLast(t *testing.T) {
	f := fragment.Fragment{Flags: fragment.First | fragment.Imm}
	require.True(t, f.First())
	require.False(t, f.Last())
	f.Flags = fragment.Last
	require.False(t, f.First())
	require.True(t, f.Last())
}

func TestRemote(t *testing.T) {
	for op, want := range map[fragment.Op]bool{
		0: false, fragment.Send: false, fragment.Write: true, fragment.Read: true, fragment.CompareSwap: true,
		fragment.FetchAdd: true, fragment.ReadData: false, fragment.AtomicResult: false, 255: false,
	} {
		require.Equal(t, want, op.Remote(), "%d", op)
	}
}

// The numbers of operations and flags must not change, because different versions of the
// library exchange them through shared memory.
func TestNumbers(t *testing.T) {
	require.EqualValues(t, 1, fragment.Send)
	require.EqualValues(t, 7, fragment.AtomicResult)
	require.EqualValues(t, 8, fragment.Solicited)
	require.EqualValues(t, 16, fragment.PathFlag)
}
