package reactor

import (
	"math"
	"net/netip"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A Dial says how to connect. It must not be changed before OnOpen or
// OnDialError has it back.
type Dial struct {
	// PrivateData goes to the peer, at most 56 bytes; it may arrive padded with
	// zeros, see cm.ConnParam.
	PrivateData []byte
	// Loop is the loop that is to have the connection. Nil means that
	// Config.Balance chooses.
	Loop *Loop
	// LocalAddr is where to connect from. The zero value means anywhere.
	LocalAddr netip.AddrPort
	// Timeout is how long the connection may take to open. Zero means
	// Config.ConnectTimeout.
	Timeout time.Duration
	// ResponderResources and InitiatorDepth stand in for those of Config if
	// they are not zero; negative means none.
	ResponderResources int
	InitiatorDepth     int
	// Context is what Conn.Context returns at first.
	Context any
}

// dialRequest is a Dial, checked.
type dialRequest struct {
	addr    netip.AddrPort
	timeout time.Duration
	param   cm.ConnParam
}

// Dial starts to connect to addr. nil means that OnOpen or OnDialError follows,
// on the loop that d names, with d as Conn.Dial or argument. A nil d means a
// loop of Config.Balance's choice, and defaults. It may be called from any
// goroutine, also before Start. The errors are a *verbs.ParamError, ErrShutdown,
// ErrClosed, and verbs.ErrForeign if d.Loop is another engine's.
func (e *Engine) Dial(addr netip.AddrPort, d *Dial) error {
	if d == nil {
		d = &Dial{}
	}
	l := d.Loop
	switch {
	case l == nil:
		l = e.loops[e.balance()]
	case l.engine != e:
		return verbs.Wrap("dial", verbs.ErrForeign)
	}
	return l.Dial(addr, d)
}

// Dial is Engine.Dial on this loop, whatever d.Loop says.
func (l *Loop) Dial(addr netip.AddrPort, d *Dial) error {
	const op = "dial"
	if d == nil {
		d = &Dial{}
	}
	request, err := l.engine.checkDial(addr, d)
	if err != nil {
		return verbs.Wrap(op, err)
	}
	if l.engine.stopping.Load() {
		return verbs.Wrap(op, ErrShutdown)
	}
	l.load.Add(1)
	if err := l.post(op, func() { l.startDial(d, request) }, true); err != nil {
		l.load.Add(-1)
		return err
	}
	return nil
}

func (e *Engine) checkDial(addr netip.AddrPort, d *Dial) (r dialRequest, err error) {
	for _, f := range []struct {
		name             string
		value, low, high int64
	}{
		{"port", int64(addr.Port()), 1, 1<<16 - 1},
		{"private data", int64(len(d.PrivateData)), 0, int64(cm.MaxPrivateData(cm.TCP, cm.MessageConnect))},
		{"timeout", int64(d.Timeout), 0, math.MaxInt64},
		{"responder resources", int64(d.ResponderResources), -1, 255},
		{"initiator depth", int64(d.InitiatorDepth), -1, 255},
	} {
		if err := checkRange(f.name, f.value, f.low, f.high); err != nil {
			return r, err
		}
	}
	return dialRequest{
		addr:    addr,
		timeout: orDefault(d.Timeout, e.cfg.ConnectTimeout),
		param: cm.ConnParam{
			PrivateData:        d.PrivateData,
			ResponderResources: uint8(orNone(d.ResponderResources, e.cfg.ResponderResources)),
			InitiatorDepth:     uint8(orNone(d.InitiatorDepth, e.cfg.InitiatorDepth)),
			RetryCount:         uint8(e.cfg.RetryCount),
			RNRRetryCount:      uint8(e.cfg.RNRRetryCount),
		},
	}, nil
}
