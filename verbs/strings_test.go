package verbs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireNames checks the method String of firstNumber and of the numbers after it. The
// results must be names[0], names[1] and so on.
func requireNames[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, firstNumber T, names ...string) {
	t.Helper()
	for i, name := range names {
		require.Equal(t, name, (firstNumber + T(i)).String())
	}
}
