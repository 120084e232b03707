package reactor

import (
	"context"
	"errors"
	"log/slog"

	"github.com/rdmaloop/rdmaloop/cm"
)

// The records at debug level, which the comment of the package lists under "Log". Each method
// asks the logger once, and then makes a record only if it is wanted.

// logsDebug reports whether the logger wants records at debug level.
func (e *Engine) logsDebug() bool {
	return e.cfg.Logger.Enabled(context.Background(), slog.LevelDebug)
}

func (e *Engine) logDebug(message string, attrs ...slog.Attr) {
	e.cfg.Logger.LogAttrs(context.Background(), slog.LevelDebug, "reactor: "+message, attrs...)
}

// logRequest makes the record of a connection request.
func (l *Loop) logRequest(req *ConnRequest) {
	if l.engine.logsDebug() {
		l.engine.logDebug("connection request", append(req.logAttrs(l), slog.String("device", req.device.Name()))...)
	}
}

// logAccepted makes the record of a request that the application has accepted.
func (l *Loop) logAccepted(req *ConnRequest) {
	if l.engine.logsDebug() {
		l.engine.logDebug("request accepted", req.logAttrs(l)...)
	}
}

// logRejected makes the record of a request that will not be accepted. Any goroutine may call
// it.
func (r *ConnRequest) logRejected(reason string) {
	if r.engine.logsDebug() {
		r.engine.logDebug("request rejected", append(r.logAttrs(nil), slog.String("reason", reason))...)
	}
}

// logAttrs returns the attributes that all records of a request have. The loop may be nil.
func (r *ConnRequest) logAttrs(l *Loop) (attrs []slog.Attr) {
	if l != nil {
		attrs = append(attrs, slog.String("loop", l.name))
	}
	return append(attrs, slog.String("local", r.local.String()), slog.String("remote", r.remote.String()))
}

// logDial makes the record of a call of Dial.
func (c *Conn) logDial() {
	if c.loop.engine.logsDebug() {
		c.loop.engine.logDebug("dial", c.logAttrs()...)
	}
}

// logFailed makes the record of a connection that did not open.
func (c *Conn) logFailed(err error) {
	if c.loop.engine.logsDebug() {
		c.loop.engine.logDebug("connection failed to open", c.logAttrs(slog.Bool("dialed", c.dialed()), errorAttr(err))...)
	}
}

func (c *Conn) logOpen() {
	if !c.loop.engine.logsDebug() {
		return
	}
	info := c.Info()
	attrs := c.logAttrs(
		slog.Bool("dialed", c.dialed()), slog.String("device", info.Device.Name()),
		slog.Int("max_in_flight", info.MaxInFlight), slog.Int("max_message", info.MaxMessage),
		slog.Int("responder_resources", int(info.ResponderResources)), slog.Int("initiator_depth", int(info.InitiatorDepth)),
	)
	if who := info.Credentials; who != nil {
		attrs = append(attrs, slog.Int("pid", int(who.PID)), slog.Uint64("uid", uint64(who.UID)))
	}
	c.loop.engine.logDebug("connection open", attrs...)
}

// logPause makes the record of the beginning or the end of PauseRecv.
func (c *Conn) logPause(message string) {
	if c.loop.engine.logsDebug() {
		c.loop.engine.logDebug(message, c.logAttrs(slog.Int("held", c.recvs.heldCount()))...)
	}
}

// logClosing makes the record of the end of stateOpen.
func (c *Conn) logClosing() {
	if c.loop.engine.logsDebug() {
		c.loop.engine.logDebug("connection closing", c.logAttrs(errorAttr(c.closing.reason.cause))...)
	}
}

// logClosed makes the record of the end of a connection with the error of OnClose.
func (c *Conn) logClosed(err error) {
	if !c.loop.engine.logsDebug() {
		return
	}
	s := &c.stats
	c.loop.engine.logDebug("connection closed", c.logAttrs(
		errorAttr(err), slog.Duration("open_for", c.loop.clock.now-c.times.openedAt),
		slog.Uint64("messages", s.Messages), slog.Uint64("message_bytes", s.MessageBytes),
		slog.Uint64("accepted", s.Accepted), slog.Uint64("confirmed", s.Confirmed),
		slog.Uint64("failed", s.Failed), slog.Uint64("queue_full", s.QueueFull),
	)...)
}

// dialed reports whether this side has dialed.
func (c *Conn) dialed() bool { return c.info.dialOptions != nil }

// logAttrs returns the attributes that all records of a connection have, and then others.
func (c *Conn) logAttrs(others ...slog.Attr) []slog.Attr {
	attrs := []slog.Attr{slog.String("loop", c.loop.name)}
	if c.info.local.IsValid() {
		attrs = append(attrs, slog.String("local", c.info.local.String()))
	}
	attrs = append(attrs, slog.String("remote", c.info.remote.String()))
	if c.qp != nil {
		attrs = append(attrs, slog.Uint64("qpn", uint64(c.info.qpNum)))
	}
	return append(attrs, others...)
}

// errorAttr returns the attribute for an error, which is empty for nil: handlers leave out
// empty attributes. What a peer or a user has sent as private data is not in the text.
func errorAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	var reject *cm.RejectError
	var closed *CloseError
	switch {
	case errors.As(err, &reject):
		silent := *reject
		silent.PrivateData = nil
		err = &silent
	case errors.As(err, &closed):
		silent := *closed
		silent.Peer.Text = ""
		err = &silent
	}
	return slog.String("error", err.Error())
}
