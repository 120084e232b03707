//go:build linux

package shm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/soft/internal/fragment"
)

func newRing(slots int) (Producer, Consumer) {
	r := Ring{slots: make([]slotFrame, slots), area: make([]byte, 1<<16)}
	return NewProducer(r), Consumer{Ring: r}
}

// The consumer sees all slots of a batch at once.
func TestBatchIsShownAtOnce(t *testing.T) {
	const slots = 8
	out, in := newRing(slots)
	var r Slot
	next, seen := byte(0), byte(0)
	for batch := 1; batch <= slots; batch++ {
		for range batch {
			dst, inArea, ok := out.Reserve(1)
			require.True(t, ok)
			require.False(t, inArea)
			dst[0] = next
			next++
			out.Put(&Slot{Fragment: fragment.Fragment{Op: fragment.Send, Length: 1}})
			more, ok := in.Peek(&r)
			require.True(t, ok)
			require.False(t, more, "slot %d of %d", out.Unpublished, batch)
		}
		out.PublishFirst()
		for range batch {
			more, ok := in.Peek(&r)
			require.True(t, more && ok)
			require.Equal(t, []byte{seen}, r.Payload)
			seen++
			in.Advance(&r)
		}
		require.True(t, out.Free(in.Head))
	}
	require.Equal(t, next, seen)
	_, _, ok := out.Reserve(1)
	require.True(t, ok)
}

// PutSend and PeekSend do the same as Reserve, Put and Peek for a short SEND.
func TestSendInSlot(t *testing.T) {
	out, in := newRing(4)
	const whole = fragment.First | fragment.Last
	for length := range SlotPayload + 1 {
		data := make([]byte, length)
		for i := range data {
			data[i] = byte(length + i)
		}
		flags := []fragment.Flags{0, FlagAckReq, fragment.Solicited, FlagAckReq | fragment.Solicited}[length%4]
		require.True(t, out.PutSend(NewDest(uint32(length), 0), data, flags))
		_, _, _, ok := in.PeekSend()
		require.False(t, ok, "the slot is not published")
		out.PublishFirst()
		payload, to, got, ok := in.PeekSend()
		require.True(t, ok)
		require.Equal(t, data, payload)
		require.Equal(t, flags|whole, got)
		require.EqualValues(t, length, to.QPN())
		var f Slot
		more, ok := in.Peek(&f)
		require.True(t, more && ok)
		require.Equal(t, fragment.Fragment{Op: fragment.Send, Flags: flags | whole, Length: uint32(length), Payload: data}, f.Fragment)
		require.Equal(t, to, f.Dest)
		in.AdvanceSend()
		require.True(t, out.Free(in.Head))
	}
	require.False(t, out.PutSend(0, make([]byte, SlotPayload+1), 0), "longer than a slot")
	for range len(out.slots) {
		require.True(t, out.PutSend(0, nil, 0))
	}
	require.False(t, out.PutSend(0, nil, 0), "the ring is full")
}

// PeekSend returns false for every slot that is not a short SEND.
func TestPeekSendLeavesOtherSlots(t *testing.T) {
	const whole = fragment.First | fragment.Last
	for name, f := range map[string]fragment.Fragment{
		"WRITE":                  {Op: fragment.Write, Flags: whole},
		"first fragment":         {Op: fragment.Send, Flags: fragment.First},
		"last fragment":          {Op: fragment.Send, Flags: fragment.Last},
		"immediate data":         {Op: fragment.Send, Flags: whole | fragment.Imm},
		"in the area":            {Op: fragment.Send, Flags: whole | FlagArea},
		"longer than a slot":     {Op: fragment.Send, Flags: whole, Length: SlotPayload + 1},
		"a flag without meaning": {Op: fragment.Send, Flags: whole | 1<<7},
	} {
		t.Run(name, func(t *testing.T) {
			out, in := newRing(4)
			out.Put(&Slot{Fragment: f})
			out.PublishFirst()
			_, _, _, ok := in.PeekSend()
			require.False(t, ok)
		})
	}
}

// A ring can be full of slots that are not published.
func TestRingIsFull(t *testing.T) {
	out, in := newRing(4)
	for range len(out.slots) {
		_, _, ok := out.Reserve(0)
		require.True(t, ok)
		out.Put(&Slot{Fragment: fragment.Fragment{Op: fragment.Send}})
	}
	_, _, ok := out.Reserve(0)
	require.False(t, ok)
	out.PublishFirst()
	require.False(t, out.Free(in.Head+5), "there are fewer slots to free")
	require.True(t, out.Free(in.Head+1))
	_, _, ok = out.Reserve(0)
	require.True(t, ok)
}
