package pairtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestReactorSpeed measures and prints the rates of long messages and of WRITEs. In each
// round, the active side first sends messages, and then WRITEs of the same memory.
// Nothing has used the memory before the first round, so this round may be slower.
// Another process runs the other side.
func TestReactorSpeed(t *testing.T) {
	s := &speedSide{reactorSide: newReactorSide(t)}
	s.run(s, &reactor.Config{MaxLongMessage: speedSize, LongConnBytes: 2 * speedSize, Idle: reactor.IdleBusy}, nil, func(e *reactor.Engine) {
		var err error
		s.memory, err = e.Alloc(speedSize, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
		require.NoError(t, err)
	}, func(*reactor.Engine) { require.NoError(t, s.memory.Close()) })
	require.True(t, s.passive || s.part == 2*speedRounds)
}

const (
	speedSize     = 16 << 20
	speedMessages = 4 // number of messages in a part of the measurement
	speedRounds   = 3
)

// A speedSide is the Handler of one side of TestReactorSpeed. The measurement has
// parts: in parts with even numbers the active side sends messages, in the others WRITEs.
type speedSide struct {
	reactorSide
	memory *reactor.Region
	to     reactor.Remote // memory of the passive side
	part   int
	// numbers of messages or WRITEs that were posted and completed in this part
	posted, ended   int
	began           time.Time
	secondsMessages float64 // duration of the last part with messages
}

// OnOpen sends the address of the memory of the passive side.
func (s *speedSide) OnOpen(c *reactor.Conn) {
	if s.passive {
		s.sendAddress(c, s.memory)
	}
}

func (s *speedSide) OnMessage(c *reactor.Conn, m reactor.Message) {
	if !s.passive {
		s.check(c, s.to.UnmarshalBinary(m.Data()))
		s.began = time.Now()
		s.post(c)
	}
}

// post posts messages or WRITEs of the present part. It stops when 32 MiB of messages or
// 16 MiB of WRITEs are outstanding.
func (s *speedSide) post(c *reactor.Conn) {
	size, onWay := speedSize, 2
	if s.part%2 == 1 {
		size, onWay = mebibyte, 16
	}
	for ; s.posted < speedMessages*speedSize/size && s.posted-s.ended < onWay; s.posted++ {
		piece := reactor.Piece{Region: s.memory, Offset: s.posted * size % speedSize, Length: size}
		if size == speedSize {
			s.check(c, c.SendV([]reactor.Piece{piece}, reactor.SendOptions{}))
			continue
		}
		to := reactor.Remote{Addr: s.to.Addr + uint64(piece.Offset), RKey: s.to.RKey}
		s.check(c, c.Write(piece, to, reactor.SendOptions{}))
	}
}

func (s *speedSide) OnCompletion(c *reactor.Conn, _ reactor.Op, err error) {
	s.check(c, err)
	s.ended++
	if s.post(c); s.ended < s.posted {
		return
	}
	seconds := time.Since(s.began).Seconds()
	if s.part%2 == 0 {
		s.secondsMessages = seconds
	} else {
		const bytes = speedMessages * speedSize
		s.t.Logf("messages of 16 MiB: %.0f MB/s, WRITEs of 1 MiB: %.0f MB/s, ratio %.2f",
			bytes/s.secondsMessages/1e6, bytes/seconds/1e6, seconds/s.secondsMessages)
	}
	if s.part++; s.part == 2*speedRounds {
		s.check(c, c.Close())
		return
	}
	s.posted, s.ended, s.began = 0, 0, time.Now()
	s.post(c)
}
