package providertest

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func memoryCases() []testCase {
	return []testCase{
		{"alloc", allocMemory},
		{"huge pages are optional", allocHuge},
		{"register", registerMemory},
		{"register memory that may go missing", registerFaulting},
		{"discard", discardMemory},
		{"access rights", accessRights},
		{"keys", memoryKeys},
	}
}

func allocMemory(r *rig) {
	for _, size := range []int{1, 4096, 4097, 1 << 20} {
		mr := r.alloc(r.pd, size, verbs.AccessAll)
		r.Len(mr.Bytes(), size)
		r.Zero(mr.Addr()%4096, "new memory is page-aligned")
		r.Equal(verbs.AccessAll, mr.Access())
		r.Equal(r.pd, mr.PD())
		r.True(bytes.Equal(make([]byte, size), mr.Bytes()), "new memory is zeroed")
		// Every byte must be writable.
		fill(mr.Bytes(), 1)
		r.NoError(mr.Close())
		r.NoError(mr.Close())
	}
}

func allocHuge(r *rig) {
	mr, err := r.pd.Alloc(&verbs.AllocAttr{Size: 5000, Access: verbs.AccessAll, HugePages: true})
	r.NoError(err)
	r.Len(mr.Bytes(), 5000)
	fill(mr.Bytes(), 1)
	r.NoError(mr.Close())
}

// registerMemory registers a part of a registered region. Every device must support this.
func registerMemory(r *rig) {
	outer := r.alloc(r.pd, 8192, verbs.AccessAll)
	inner, err := r.pd.Register(outer.Bytes()[100:300], verbs.AccessLocalWrite)
	r.NoError(err)
	r.closing("inner MR", inner.Close)
	r.Equal(outer.Addr()+100, inner.Addr())
	r.Len(inner.Bytes(), 200)
	inner.Bytes()[0] = 42
	r.Equal(byte(42), outer.Bytes()[100])
}

// registerFaulting registers memory whose pages are all there.
func registerFaulting(r *rig) {
	mr, err := r.pd.RegisterFaulting(r.alloc(r.pd, 4096, verbs.AccessAll).Bytes()[:100], verbs.AccessLocalWrite)
	r.NoError(err)
	r.closing("MR", mr.Close)
	r.Len(mr.Bytes(), 100)
	r.Equal(verbs.AccessLocalWrite, mr.Access())
	_, err = r.pd.RegisterFaulting(mr.Bytes(), verbs.AccessRemoteWrite)
	r.requireParamError(err, "register")
}

// discardMemory discards memory, or gets the error of a device that has pinned it.
func discardMemory(r *rig) {
	mr := r.alloc(r.pd, 64<<10, verbs.AccessLocalWrite)
	fill(mr.Bytes(), 1)
	before := bytes.Clone(mr.Bytes())
	if err := mr.Discard(0, len(before)); err == nil {
		clear(before)
	} else {
		r.ErrorIs(err, verbs.ErrNotSupported)
	}
	r.True(bytes.Equal(before, mr.Bytes()))
	r.NoError(mr.Close())
	r.ErrorIs(mr.Discard(0, 1), verbs.ErrClosed)
}

// accessRights registers memory with all combinations of access rights. Exactly the
// combinations that Access.Check allows must succeed. Source: ibv_reg_mr(3).
func accessRights(r *rig) {
	buf := r.alloc(r.pd, 4096, verbs.AccessLocalWrite).Bytes()
	for access := range (verbs.AccessMWBind + 1) << 1 {
		want := access.Check()
		mapped, allocErr := r.pd.Alloc(&verbs.AllocAttr{Size: 4096, Access: access})
		registered, err := r.pd.Register(buf, access)
		if want == nil && access&verbs.AccessMWBind != 0 && !r.dev.Caps().MemoryWindows {
			r.ErrorIs(allocErr, verbs.ErrNotSupported)
			r.ErrorIs(err, verbs.ErrNotSupported)
			continue
		}
		if want != nil {
			r.requireParamError(allocErr, "alloc")
			r.requireParamError(err, "register")
			continue
		}
		r.NoError(allocErr)
		r.NoError(err)
		r.Equal(access, mapped.Access())
		r.Equal(access, registered.Access())
		r.NoError(mapped.Close())
		r.NoError(registered.Close())
	}
}

// memoryKeys checks that no two regions have the same key.
func memoryKeys(r *rig) {
	lkeys, rkeys := map[uint32]bool{}, map[uint32]bool{}
	for range 100 {
		mr := r.alloc(r.pd, 64, verbs.AccessAll)
		r.False(lkeys[mr.LKey()], "local key %#x twice", mr.LKey())
		r.False(rkeys[mr.RKey()], "remote key %#x twice", mr.RKey())
		lkeys[mr.LKey()], rkeys[mr.RKey()] = true, true
	}
}
