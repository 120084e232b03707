//go:build linux

package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A fragment that does not continue the current message is invalid. The receive buffer
// of the message then completes with an error.
func TestResponderMessageOrder(t *testing.T) {
	const first, last = fragment.First, fragment.Last
	type step struct {
		op    fragment.Op
		flags fragment.Flags
		want  messageState
	}
	for name, c := range map[string]struct {
		valid   []step
		invalid step
		failed  int // number of receive buffers that complete with an error
	}{
		"SEND without its first fragment":  {nil, step{fragment.Send, last, messageNone}, 0},
		"WRITE without its first fragment": {nil, step{fragment.Write, last, messageNone}, 0},
		"two first fragments of SENDs": {
			[]step{{fragment.Send, first, messageSend}, {fragment.Send, 0, messageSend}}, step{fragment.Send, first, messageNone}, 1},
		"WRITE in a SEND": {[]step{{fragment.Send, first, messageSend}}, step{fragment.Write, first | last, messageNone}, 1},
		"READ in a SEND":  {[]step{{fragment.Send, first, messageSend}}, step{fragment.Read, first | last, messageNone}, 1},
		"SEND in a WRITE": {[]step{{fragment.Write, first, messageWrite}}, step{fragment.Send, first | last, messageWrite}, 0},
		"rest of a complete SEND": {
			[]step{{fragment.Send, first, messageSend}, {fragment.Send, last, messageNone}}, step{fragment.Send, last, messageNone}, 0},
		"rest of a complete WRITE": {
			[]step{{fragment.Write, first, messageWrite}, {fragment.Write, last, messageNone}}, step{fragment.Write, last, messageNone}, 0},
	} {
		e := newFakeEnd(t, newFakeHost(t, 1), nil)
		e.qp.attr.Access, e.qp.attr.MaxDestRdAtomic, e.qp.state = verbs.AccessAll, 1, verbs.StateInit
		e.recv(1, 100)
		deliver := func(s step) (a Outcome) {
			f := &fragment.Fragment{Op: s.op, Flags: s.flags, Addr: e.mr.Addr(), Key: e.mr.RKey(), Total: 8, Payload: make([]byte, 4)}
			if s.op == fragment.Read {
				_, a = e.qp.DeliverRead(f)
			} else {
				a = e.qp.Deliver(f)
			}
			require.Equal(t, s.want, e.qp.message, name)
			return a
		}
		for _, s := range c.valid {
			require.Equal(t, OutcomeAck, deliver(s), name)
		}
		require.Equal(t, OutcomeInvalidRequest, deliver(c.invalid), name)
		failed := 0
		for _, wc := range e.poll(4) {
			if wc.Status == verbs.StatusRemInvReqErr {
				failed++
			}
		}
		require.Equal(t, c.failed, failed, name)
	}
}

// If the memory of a WRITE with immediate data is no longer accessible, the receive
// buffer completes with an error.
func TestResponderWriteImmWithoutMemory(t *testing.T) {
	e := newFakeEnd(t, newFakeHost(t, 1), nil)
	e.qp.attr.Access, e.qp.state = verbs.AccessAll, verbs.StateInit
	f := &fragment.Fragment{Op: fragment.Write, Flags: fragment.First, Addr: e.mr.Addr(), Key: e.mr.RKey(), Total: 8, Payload: make([]byte, 4)}
	require.Equal(t, OutcomeAck, e.qp.Deliver(f))
	f.Flags = fragment.Last | fragment.Imm
	require.Equal(t, OutcomeRNR, e.qp.Deliver(f), "there is no receive buffer")
	require.Equal(t, messageWrite, e.qp.message)
	e.recv(7, 100)
	e.qp.writeLeft.Key++
	require.Equal(t, OutcomeAccessError, e.qp.Deliver(f))
	got := e.poll(4)
	require.Len(t, got, 1)
	require.Equal(t, verbs.StatusLocAccessErr, got[0].Status)
	require.EqualValues(t, 7, got[0].ID)
	require.Zero(t, e.qp.ReceiveBuffers())
}
