package stream

import (
	"math"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/stream/internal/rsocket"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Buffers are the sizes of the memory of a stream. If a size is out of its range, the
// error of the call with these Buffers is a *verbs.ParamError.
type Buffers struct {
	// Receive is the size in bytes of the ring into which the peer writes. It is rounded up
	// to an even number. The peer may fill the ring before this side reads. Zero means 128
	// KiB for Listen and Dial, and 512 KiB for a Network. The maximum is 1 GiB, and the
	// minimum is 128.
	Receive int
	// Send is how many bytes Write may have written that the peer has not confirmed. Zero
	// means the same as for Receive. The maximum is 1 GiB, and the minimum is 1.
	Send int
}

// Limits and defaults of Buffers. The defaults are arbitrary. A connection of a Network
// has larger buffers, because a goroutine that blocks reads later than a callback.
const (
	defaultBuffer     = 128 << 10
	defaultConnBuffer = 512 << 10
	maxBuffer         = 1 << 30
	minRing           = 128
)

// withDefaults returns b with the given default for zero values. If a value is out of
// range, the error is a *verbs.ParamError.
func (b Buffers) withDefaults(size int) (Buffers, error) {
	for _, f := range []struct {
		name  string
		value *int
		low   int
	}{{"Buffers.Receive", &b.Receive, minRing}, {"Buffers.Send", &b.Send, 1}} {
		*f.value = orDefault(*f.value, size)
		if *f.value < f.low || *f.value > maxBuffer {
			return b, &verbs.ParamError{Field: f.name, Value: int64(*f.value), Limit: limitFor(*f.value, f.low)}
		}
	}
	b.Receive += b.Receive & 1
	return b, nil
}

// limitFor returns the limit that a value out of range has passed.
func limitFor(value, low int) int64 {
	if value < low {
		return int64(low)
	}
	return maxBuffer
}

// ListenOptions are the options of a listener and of its streams.
type ListenOptions struct {
	Buffers Buffers
	// TOS, ReuseAddr and V6Only are options of reactor.ListenOptions with the same names.
	TOS       uint8
	ReuseAddr bool
	V6Only    bool
}

// DialOptions are the options of a stream that this side opens. Dial copies them.
type DialOptions struct {
	Buffers Buffers
	// PrivateData is sent to the peer, at most MaxRequestData bytes. It may arrive padded
	// with zeros.
	PrivateData []byte
	// Context is the result of Stream.Context until SetContext is called.
	Context any
	// Loop, LocalAddr, Timeout, TOS and ReuseAddr are options of reactor.DialOptions with the
	// same names.
	Loop      *reactor.Loop
	LocalAddr netip.AddrPort
	Timeout   time.Duration
	TOS       uint8
	ReuseAddr bool
}

// spareReceives is the number of receives of a connection minus the number of credits of
// the peer. The spare receives are for messages that need no credits. Before this side
// has to answer, a peer may send six of them: two for its ring, two for the credits, and
// two to end the stream. The other two receives are a reserve.
const spareReceives = 8

// controlPlaces is how many messages other than data messages a side may have
// outstanding.
const controlPlaces = rsocket.ReservedCredits

// minInFlight is the smallest reactor.Config.MaxInFlight for streams. It leaves as many
// receives for data messages as for other messages. Arbitrary.
const minInFlight = 2 * spareReceives

// creditsFor returns the number of credits that the peer of a new connection gets. The
// parameter maxInFlight is Conn.MaxInFlight of the connection. If maxInFlight is too
// small, the error is a *verbs.ParamError.
func creditsFor(maxInFlight int) (uint16, error) {
	if maxInFlight < minInFlight {
		return 0, &verbs.ParamError{Field: "MaxInFlight", Value: int64(maxInFlight), Limit: minInFlight, Reason: "streams need more places in the queues of a connection"}
	}
	return uint16(min(maxInFlight-spareReceives, math.MaxInt16)), nil
}
