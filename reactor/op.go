package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An Op describes a completed operation to OnCompletion.
type Op struct {
	Code  verbs.Opcode // kind of operation, such as verbs.OpWrite
	Tag   uint64       // value of OpOptions.Tag
	Bytes uint32       // payload in bytes; 8 for atomic operations
	// Value is the value of the peer's memory before an atomic operation. It is valid if
	// the operation has succeeded.
	Value uint64
}

// OpOptions are the options of one operation. Nil and the zero value mean no options. The call
// copies what it needs. If the operation can not have an option, the error is a
// *verbs.ParamError.
type OpOptions struct {
	// Tag is returned in Op.Tag.
	Tag uint64
	// Notify requests a call of OnCompletion when the peer has confirmed the message of
	// Send or SendBuffer. For other operations OnCompletion is called without it.
	Notify bool
	// Quiet means that OnCompletion is called only if the operation fails. A READ, a WRITE, Hide
	// and SendV can be Quiet, but not a long message. Its memory is the caller's again when
	// OnCompletion reports a later operation of the connection, or in OnClose. One completion of
	// the device can confirm many Quiet operations.
	Quiet bool
	// Imm is the immediate data of a message or WRITE. If HasImm is false, Imm must be 0.
	Imm    uint32
	HasImm bool
	// Invalidate is a key of the peer that the message makes invalid, so that this side gives
	// back memory that the peer has shown with Conn.Show: Remote.RKey, which is never 0. 0 means
	// none. The peer's Message.Invalidated returns the key. Only messages can have it, without
	// HasImm. On a device without memory windows the error matches verbs.ErrNotSupported. If the
	// peer does not show the key on this connection, the connection ends. Source:
	// ibv_post_send(3), IBV_WR_SEND_WITH_INV.
	Invalidate uint32
	// Solicited makes the operation wake a peer whose CQ is armed for solicited
	// completions only, as programs of verbs can do. A loop of this package never does. Messages
	// and WRITEs with immediate data accept Solicited.
	// Source: ibv_post_send(3), IBV_SEND_SOLICITED.
	Solicited bool
	// Fence delays the operation until all earlier READs and atomic operations of the
	// connection have completed. Source: ibv_post_send(3), IBV_SEND_FENCE.
	Fence bool
}

// noOptions are the options of an operation without options. They are only read.
var noOptions OpOptions

// orNone returns o, or no options if o is nil.
func (o *OpOptions) orNone() *OpOptions {
	if o == nil {
		return &noOptions
	}
	return o
}

// checkMessage returns an error if a SEND can not have these options.
func (o *OpOptions) checkMessage() error {
	if o.Quiet {
		return optionRefused(verbs.OpSend, "Quiet", "without Notify a message is not reported")
	}
	return o.checkImm(verbs.OpSend)
}

// checkImm returns an error if Imm is set without HasImm, if Invalidate and HasImm are
// both set, or if Invalidate is set for an operation that is not a message.
func (o *OpOptions) checkImm(code verbs.Opcode) error {
	switch {
	case o.Invalidate != 0 && code != verbs.OpSend:
		return optionRefused(code, "Invalidate", onlyMessagesInvalidate)
	case o.Invalidate != 0 && o.HasImm:
		return optionRefused(code, "Invalidate", "HasImm is true")
	}
	if o.Imm != 0 && !o.HasImm {
		return operr.Wrap(opName(code), &verbs.ParamError{Field: "Imm", Value: int64(o.Imm), Reason: "HasImm is false"})
	}
	return nil
}

// checkWrite returns an error if a WRITE can not have these options.
func (o *OpOptions) checkWrite() error {
	if o.Solicited && !o.HasImm {
		return optionRefused(verbs.OpWrite, "Solicited", notAtPeer)
	}
	if err := o.checkQuiet(verbs.OpWrite); err != nil {
		return err
	}
	return o.checkImm(verbs.OpWrite)
}

// checkQuiet returns an error if an operation can not have the option Quiet.
func (o *OpOptions) checkQuiet(code verbs.Opcode) error {
	switch {
	case !o.Quiet:
		return nil
	case o.Notify:
		return optionRefused(code, "Quiet", "Notify is true")
	case code.Atomic():
		return optionRefused(code, "Quiet", "the result is in OnCompletion")
	}
	return nil
}

// checkOneSided returns an error if a READ or an atomic operation can not have these
// options.
func (o *OpOptions) checkOneSided(code verbs.Opcode) error {
	switch {
	case o.HasImm:
		return optionRefused(code, "HasImm", onlyMessagesHaveImm)
	case o.Imm != 0:
		return operr.Wrap(opName(code), &verbs.ParamError{Field: "Imm", Value: int64(o.Imm), Reason: onlyMessagesHaveImm})
	case o.Solicited:
		return optionRefused(code, "Solicited", notAtPeer)
	case o.Invalidate != 0:
		return optionRefused(code, "Invalidate", onlyMessagesInvalidate)
	}
	return o.checkQuiet(code)
}

const (
	// onlyMessagesHaveImm is the reason why an operation can not have Imm or HasImm.
	onlyMessagesHaveImm = "only messages and WRITEs have immediate data"
	// onlyMessagesInvalidate is the reason why an operation can not have Invalidate.
	onlyMessagesInvalidate = "only messages invalidate a key of the peer"
	// notAtPeer is the reason why an operation can not have Solicited.
	notAtPeer = "the operation has no completion at the peer"
)

// optionRefused returns the error of an operation that can not have an option. The
// parameter reason says why.
func optionRefused(code verbs.Opcode, option, reason string) error {
	return operr.Wrap(opName(code), &verbs.ParamError{Field: option, NotNumber: true, Reason: reason})
}

// opName returns the name of an operation for the text of an error.
func opName(code verbs.Opcode) string {
	switch code {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpSendInv:
		return "send"
	case verbs.OpRead:
		return "read"
	case verbs.OpWrite, verbs.OpWriteImm:
		return "write"
	case verbs.OpBindMW:
		return "show memory"
	case verbs.OpLocalInv:
		return "hide memory"
	}
	return "atomic"
}
