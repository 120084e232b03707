package verbs_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestAccessCheck(t *testing.T) {
	for access := range verbs.AccessAll + 1 {
		local := access&verbs.AccessLocalWrite != 0
		needsLocal := access&verbs.AccessRemoteWrite != 0 || access&verbs.AccessRemoteAtomic != 0
		err := access.Check()
		if local || !needsLocal {
			require.NoError(t, err, "%#x", uint32(access))
			continue
		}
		requireAccessError(t, access, err)
	}
	require.NoError(t, verbs.AccessMWBind.Check())
	require.NoError(t, (verbs.AccessAll | verbs.AccessMWBind).Check())
	requireAccessError(t, 1<<5, verbs.Access(1<<5).Check())
	requireAccessError(t, verbs.AccessAll|1<<31, (verbs.AccessAll | 1<<31).Check())
}

func requireAccessError(t *testing.T, access verbs.Access, err error) {
	t.Helper()
	var param *verbs.ParamError
	require.ErrorAs(t, err, &param)
	require.Equal(t, "access", param.Field)
	require.Equal(t, int64(access), param.Value)
	require.NotEmpty(t, param.Reason)
}

// TestAccessBits compares the access rights with the bits of enum ibv_access_flags.
func TestAccessBits(t *testing.T) {
	require.Equal(t, verbs.Access(0xf), verbs.AccessAll)
	require.Equal(t, []verbs.Access{1, 2, 4, 8, 16}, []verbs.Access{
		verbs.AccessLocalWrite, verbs.AccessRemoteWrite, verbs.AccessRemoteRead, verbs.AccessRemoteAtomic, verbs.AccessMWBind,
	})
}

// A region is an MR that has only an address and a local key.
type region struct {
	verbs.MR
	addr uint64
	lkey uint32
}

func (r region) Addr() uint64 { return r.addr }
func (r region) LKey() uint32 { return r.lkey }

func TestSGEOf(t *testing.T) {
	mr := region{addr: 0x7f0000001000, lkey: 0xabcd}
	require.Equal(t, verbs.SGE{Addr: 0x7f0000001040, Length: 64, LKey: 0xabcd}, verbs.SGEOf(mr, 64, 64))
	require.Equal(t, verbs.SGE{Addr: 0x7f0000000ff8, Length: 8, LKey: 0xabcd}, verbs.SGEOf(mr, -8, 8), "SGEOf does not check bounds")
}

// A memoryMR is an MR that has only memory, which is on the Go heap.
type memoryMR struct {
	verbs.MR
	memory []byte
}

func (m memoryMR) Bytes() []byte { return m.memory }

func TestLoadUint64(t *testing.T) {
	mr := memoryMR{memory: make([]byte, 24)}
	binary.NativeEndian.PutUint64(mr.memory[8:], 1<<40+2)
	require.Equal(t, uint64(1<<40+2), verbs.LoadUint64(mr.Bytes(), 8))
	require.Zero(t, verbs.LoadUint64(mr.Bytes(), 16))
	require.Panics(t, func() { verbs.LoadUint64(mr.Bytes(), 4) }, "not a multiple of 8")
	require.Panics(t, func() { verbs.LoadUint64(mr.Bytes(), 24) }, "not in the region")
}
