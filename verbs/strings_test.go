package verbs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireNames checks the names of consecutive values, beginning with first.
func requireNames[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, first T, names ...string) {
	t.Helper()
	for i, name := range names {
		require.Equal(t, name, (first + T(i)).String())
	}
}
