//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestInlineAndSGEsExclude(t *testing.T) {
	a := newFakeEnd(t, newFakeHost(t, 1), nil)
	a.connect()
	_, err := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendInline, Inline: []byte("x"), SGEs: []verbs.SGE{{Length: 1}}}})
	require.ErrorAs(t, err, new(*verbs.ParamError))
}
