package reactor

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An Op describes a completed operation to OnCompletion.
type Op struct {
	Code  verbs.Opcode // kind of operation, such as verbs.OpWrite
	Tag   uint64       // value of SendOptions.Tag
	Bytes uint32       // payload in bytes; 8 for atomic operations
	// Value is the value of the peer's memory before an atomic operation. It is valid if
	// the operation has succeeded.
	Value uint64
}

// SendOptions are the options of one operation. The zero value means no options. If the
// operation can not have an option, the error is a *verbs.ParamError.
type SendOptions struct {
	// Tag is returned in Op.Tag.
	Tag uint64
	// Notify requests a call of OnCompletion when the peer has confirmed the message.
	// For one-sided and atomic operations OnCompletion is always called.
	Notify bool
	// Imm is the immediate data of a message. If HasImm is false, Imm must be 0. Only
	// SendWith and SendBufferWith accept Imm and HasImm. WriteImm has an argument for
	// immediate data instead.
	Imm    uint32
	HasImm bool
	// Solicited makes the operation wake a peer whose CQ is armed for solicited
	// completions only. Only SendWith, SendBufferWith and WriteImm accept Solicited.
	// Source: ibv_post_send(3), IBV_SEND_SOLICITED.
	Solicited bool
	// Fence delays the operation until all earlier READs and atomic operations of the
	// connection have completed. Source: ibv_post_send(3), IBV_SEND_FENCE.
	Fence bool
}

// checkMessage returns an error if a SEND can not have these options.
func (o *SendOptions) checkMessage() error {
	if o.Imm != 0 && !o.HasImm {
		return operr.Wrap("send", &verbs.ParamError{Field: "Imm", Value: int64(o.Imm), Reason: "HasImm is false"})
	}
	return nil
}

// checkOneSided returns an error if a one-sided or atomic operation can not have these
// options.
func (o *SendOptions) checkOneSided(code verbs.Opcode) error {
	switch {
	case o.HasImm:
		return optionRefused(code, "HasImm", onlyMessagesHaveImm)
	case o.Imm != 0:
		return operr.Wrap(opName(code), &verbs.ParamError{Field: "Imm", Value: int64(o.Imm), Reason: onlyMessagesHaveImm})
	case o.Solicited && code != verbs.OpWriteImm:
		return optionRefused(code, "Solicited", "the operation has no completion at the peer")
	}
	return nil
}

// onlyMessagesHaveImm is the reason in the errors for Imm and HasImm of one-sided
// operations.
const onlyMessagesHaveImm = "only SendWith, SendBufferWith and the argument of WriteImm send immediate data"

// optionRefused returns the error of an operation that can not have an option. The
// parameter reason says why.
func optionRefused(code verbs.Opcode, option, reason string) error {
	return operr.Wrap(opName(code), &verbs.ParamError{Field: option, NotNumber: true, Reason: reason})
}

// opName returns the name of a one-sided or atomic operation for the text of an error.
func opName(code verbs.Opcode) string {
	switch code {
	case verbs.OpRead:
		return "read"
	case verbs.OpWrite, verbs.OpWriteImm:
		return "write"
	}
	return "atomic"
}

// sendCode returns the opcode of a SEND with these options.
func (o *SendOptions) sendCode() verbs.Opcode {
	if o.HasImm {
		return verbs.OpSendImm
	}
	return verbs.OpSend
}

// flags returns the flags of a send request for the options Solicited and Fence.
func (o *SendOptions) flags() verbs.SendFlags {
	var f verbs.SendFlags
	if o.Solicited {
		f |= verbs.SendSolicited
	}
	if o.Fence {
		f |= verbs.SendFence
	}
	return f
}
