package reactor

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/rdmaloop/rdmaloop/reactor/internal/closemsg"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// MaxCloseText is the length in bytes of the longest CloseReason.Text, 200.
const MaxCloseText = closemsg.MaxText

// A CloseReason is what the peer says about why it has ended a connection. OnClose gets it in
// CloseError.Peer.
//
// A peer says it if it uses this library on a device with verbs.Caps.DisconnectData, which
// provider/soft has and provider/rdmacore does not. Programs of other libraries say nothing, as
// does a process that is killed. All of the reason is the word of the peer.
type CloseReason struct {
	// Kind says what has ended the connection. It is CloseUnknown if the peer has given no
	// reason.
	Kind CloseKind
	// Code and Text are the arguments of the peer's Conn.CloseWith, or zero. Text may contain
	// any bytes.
	Code uint32
	Text string
}

// A CloseKind says what has ended a connection. A peer with a newer version of this library may
// send a number that has no name here.
type CloseKind uint8

// Kinds of reasons. "The peer" is the side that sends the reason.
const (
	// CloseUnknown: the peer has given no reason.
	CloseUnknown CloseKind = iota
	// CloseNormal: the peer has called Close or CloseWith, and its sends are confirmed.
	CloseNormal
	// CloseShutdown: the engine of the peer shuts down. Its sends may be lost only if its
	// Shutdown was cut short.
	CloseShutdown
	// CloseAborted: the peer has called Abort. Its sends may be lost.
	CloseAborted
	// CloseIdle and CloseTimeout: at the peer the time of SetIdleTimeout or SetTimeout is over.
	CloseIdle
	CloseTimeout
	// CloseSilent: the peer has heard nothing of this side for too long. At the peer OnClose
	// gets ErrKeepalive, ErrDrainTimeout or a *verbs.CompletionError with StatusRetryExcErr.
	CloseSilent
	// CloseProtocol: this side has sent something invalid, such as a request for memory that
	// it may not use, and the peer's error matches verbs.ErrProtocol.
	CloseProtocol
	// CloseFailed: another failure at the peer, such as that of its device.
	CloseFailed
)

// String returns the name of the kind, such as "aborted".
func (k CloseKind) String() string {
	names := [...]string{
		"no reason given", "closed", "shutting down", "aborted", "idle for too long", "time limit passed",
		"heard nothing of this side", "protocol violated by this side", "failed",
	}
	if int(k) < len(names) {
		return names[k]
	}
	return "reason " + strconv.Itoa(int(k))
}

// String returns the name of the kind, and the code and the quoted text if they are not zero.
func (r CloseReason) String() string {
	s := r.Kind.String()
	if r.Code != 0 {
		s += fmt.Sprintf(", code %d", r.Code)
	}
	if r.Text != "" {
		s += fmt.Sprintf(": %q", r.Text)
	}
	return s
}

// kindOfCause returns the kind of reason that tells the peer about a cause, which is not nil
// and not that of an Abort.
func kindOfCause(cause error) CloseKind {
	switch {
	case errors.Is(cause, ErrShutdown):
		return CloseShutdown
	case errors.Is(cause, ErrIdle):
		return CloseIdle
	case errors.Is(cause, ErrTimeout):
		return CloseTimeout
	case noAnswer(cause), errors.Is(cause, ErrDrainTimeout):
		return CloseSilent
	case errors.Is(cause, verbs.ErrProtocol):
		return CloseProtocol
	}
	return CloseFailed
}

// noAnswer reports whether a connection ended because the peer has answered nothing.
func noAnswer(err error) bool {
	var failed *verbs.CompletionError
	return errors.Is(err, ErrKeepalive) || errors.As(err, &failed) && failed.Status == verbs.StatusRetryExcErr
}

// encodeReason returns the private data of the disconnect request. It returns nil if the device
// sends none, or if the peer has disconnected, because an answer has none.
func (c *Conn) encodeReason() []byte {
	if c.closing.reason.peerErr != nil || !c.device.dev.Caps().DisconnectData {
		return nil
	}
	m := closemsg.Message{Kind: uint8(c.closing.call)}
	if cause := c.closing.reason.cause; cause != nil && c.closing.call != CloseAborted {
		m.Kind = uint8(kindOfCause(cause))
	}
	if said := c.closing.said; said != nil {
		m.Code, m.Text = said.Code, said.Text
	}
	return m.AppendTo(c.loop.disconnectData[:0])
}

// decodeReason returns the reason in the private data of the peer's disconnect request. Other
// private data is no reason.
func decodeReason(data []byte) CloseReason {
	m, _ := closemsg.Decode(data)
	return CloseReason{Kind: CloseKind(m.Kind), Code: m.Code, Text: m.Text}
}
