package pairtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestReactorImmediates sends WRITEs with immediate data to a side whose receives have no
// buffers. Every other WRITE has bytes. Another process runs the other side.
func TestReactorImmediates(t *testing.T) {
	s := &immediatesSide{reactorSide: newReactorSide(t)}
	s.run(s, nil, &reactor.ListenOptions{ImmediatesOnly: true}, func(e *reactor.Engine) {
		var err error
		s.memory, err = e.Alloc(windowSize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		require.NoError(t, err)
	}, func(*reactor.Engine) { require.NoError(t, s.memory.Close()) })
	require.Equal(t, immediates, s.count)
}

// immediates is the number of WRITEs. The receive queue has fewer places.
const immediates = 1000

// An immediatesSide is the Handler of one side of TestReactorImmediates.
type immediatesSide struct {
	reactorSide
	memory *reactor.Region
	to     reactor.Remote // memory of the passive side
	count  int            // number of WRITEs that were sent or received
}

// OnOpen sends the address of the memory of the passive side.
func (s *immediatesSide) OnOpen(c *reactor.Conn) {
	if s.passive {
		s.sendAddress(c, s.memory)
	}
}

func (s *immediatesSide) OnMessage(c *reactor.Conn, m reactor.Message) {
	if !s.passive {
		s.check(c, s.to.UnmarshalBinary(m.Data()))
		s.OnWritable(c)
		return
	}
	imm, has := m.Imm()
	switch {
	case !has || !m.IsWriteImm() || int(imm) != s.count:
		s.t.Errorf("WRITE %d: immediate data %d, %t", s.count, imm, has)
	case s.count%2 == 1 && s.memory.Bytes()[s.count] != byte(s.count):
		s.t.Errorf("WRITE %d: the byte has not arrived", s.count)
	}
	if s.count++; s.count == immediates {
		s.check(c, c.Close())
	}
}

// OnWritable sends WRITEs until the send queue is full. If n is even, WRITE n is
// empty. Otherwise it writes byte n of the memory.
func (s *immediatesSide) OnWritable(c *reactor.Conn) {
	for ; s.count < immediates; s.count++ {
		var err error
		if imm := uint32(s.count); s.count%2 == 0 {
			err = c.Write(reactor.Remote{}, &reactor.OpOptions{HasImm: true, Imm: imm, Quiet: true})
		} else {
			to := reactor.Remote{Addr: s.to.Addr + uint64(s.count), RKey: s.to.RKey}
			err = c.WriteBytes(to, []byte{byte(s.count)}, &reactor.OpOptions{Quiet: true, HasImm: true, Imm: imm})
		}
		if err == reactor.ErrWouldBlock {
			return
		}
		s.check(c, err)
	}
}
