package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestIncRKey(t *testing.T) {
	require.EqualValues(t, 0x12345601, verbs.IncRKey(0x12345600))
	require.EqualValues(t, 0x12345600, verbs.IncRKey(0x123456ff))
}

// A window is an MW that has only a key.
type window struct {
	verbs.MW
	key uint32
}

func (w window) RKey() uint32 { return w.key }

// TestCheckLocal changes one parameter of a valid bind at a time. The error of CheckLocal
// must name this parameter.
func TestCheckLocal(t *testing.T) {
	for name, change := range map[string]func(wr *verbs.SendWR){
		"":              func(*verbs.SendWR) {},
		"bind":          func(wr *verbs.SendWR) { wr.Bind = nil },
		"memory window": func(wr *verbs.SendWR) { wr.Bind.MW = nil },
		"memory region": func(wr *verbs.SendWR) { wr.Bind.MR = nil },
		"window bytes":  func(wr *verbs.SendWR) { wr.Bind.Length = 0 },
		"window access": func(wr *verbs.SendWR) { wr.Bind.Access = verbs.AccessLocalWrite },
		"window key":    func(wr *verbs.SendWR) { wr.RKey = 0x124 << 8 },
		"send SGEs":     func(wr *verbs.SendWR) { wr.SGEs = make([]verbs.SGE, 1) },
		"inline bytes":  func(wr *verbs.SendWR) { wr.Flags = verbs.SendInline },
	} {
		bind := verbs.MWBind{MW: window{key: 0x12345}, MR: region{}, Length: 1, Access: verbs.AccessRemoteRead}
		wr := verbs.SendWR{Opcode: verbs.OpBindMW, RKey: 0x123ff, Bind: &bind}
		change(&wr)
		err := wr.CheckLocal()
		if name == "" {
			require.NoError(t, err)
			continue
		}
		var param *verbs.ParamError
		require.ErrorAs(t, err, &param)
		require.Equal(t, name, param.Field)
	}
	invalidation := verbs.SendWR{Opcode: verbs.OpLocalInv, RKey: 7}
	require.NoError(t, invalidation.CheckLocal())
	invalidation.Inline = []byte{1}
	require.Error(t, invalidation.CheckLocal())
}
