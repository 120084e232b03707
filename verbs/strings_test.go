package verbs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireNames checks the texts of consecutive numbers. The number first must have the
// first text in names, the next number the second text, and so on.
func requireNames[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, first T, names ...string) {
	t.Helper()
	for i, name := range names {
		require.Equal(t, name, (first + T(i)).String())
	}
}
