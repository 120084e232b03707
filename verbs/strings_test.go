package verbs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireNames checks that names are the texts of consecutive values. The first value is
// firstNumber.
func requireNames[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, firstNumber T, names ...string) {
	t.Helper()
	for i, name := range names {
		require.Equal(t, name, (firstNumber + T(i)).String())
	}
}
