package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// An Op describes a completed operation to OnCompletion.
type Op struct {
	Code  verbs.Opcode // kind of operation, such as verbs.OpWrite
	Tag   uint64       // value of SendOptions.Tag
	Bytes uint32       // payload in bytes; 8 for atomic operations
	// Value is the value of the peer's memory before an atomic operation. It is valid if
	// the operation has succeeded.
	Value uint64
}

// SendOptions are the options of one operation. The zero value means no options. If an
// option is set that the operation can not have, the call returns a *verbs.ParamError.
type SendOptions struct {
	// Tag is returned in Op.Tag.
	Tag uint64
	// Notify requests a call of OnCompletion. For one-sided and atomic operations
	// OnCompletion is always called.
	Notify bool
	// Imm is the immediate data of a message. It is sent only if HasImm is true. Only
	// SendWith and SendBufferWith have the options Imm and HasImm; WriteImm gets its
	// immediate data as an argument. Imm must be 0 if HasImm is false.
	Imm    uint32
	HasImm bool
	// Solicited makes the completion at the peer a solicited event, which wakes a peer
	// that has armed its CQ for solicited completions only. Only SendWith, SendBufferWith
	// and WriteImm have this option, because other operations have no completion at the
	// peer. Source: ibv_post_send(3), IBV_SEND_SOLICITED.
	Solicited bool
	// Fence delays the operation until all earlier READs and atomic operations of the
	// connection have completed. Source: ibv_post_send(3), IBV_SEND_FENCE.
	Fence bool
}

// checkSend returns an error if a SEND can not have these options.
func (o *SendOptions) checkSend() error {
	if o.Imm != 0 && !o.HasImm {
		return errImmWithoutHasImm
	}
	return nil
}

// checkOneSided returns an error if a one-sided or atomic operation can not have these
// options.
func (o *SendOptions) checkOneSided(code verbs.Opcode) error {
	switch {
	case o.HasImm || o.Imm != 0:
		return errImmNotSent
	case o.Solicited && code != verbs.OpWriteImm:
		return errNoSolicited
	}
	return nil
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
