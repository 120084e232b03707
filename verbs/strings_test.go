package verbs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireNames requires that firstNumber has the text names[0], the next number
// names[1], and so on.
func requireNames[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, firstNumber T, names ...string) {
	t.Helper()
	for i, name := range names {
		require.Equal(t, name, (firstNumber + T(i)).String())
	}
}
