package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// An Op describes a completed operation to OnCompletion.
type Op struct {
	Code  verbs.Opcode
	Tag   uint64 // value of SendOptions.Tag
	Bytes uint32 // payload in bytes; 8 for atomic operations
	// Value is the value of the peer's memory before an atomic operation. It is valid if
	// the operation has succeeded.
	Value uint64
}

// SendOptions are the options of one operation. The zero value means no options.
type SendOptions struct {
	// Tag is returned in Op.Tag.
	Tag uint64
	// Notify requests a call of OnCompletion. For one-sided and atomic operations
	// OnCompletion is always called.
	Notify bool
	// Imm is the immediate data of a message. It is sent if HasImm is true.
	Imm    uint32
	HasImm bool
	// Solicited makes the completion at the peer a solicited event, which wakes a peer
	// that has armed its CQ for solicited completions only.
	Solicited bool
	// Fence delays the operation until all earlier READs and atomic operations of the
	// connection have completed.
	Fence bool
}

// flags returns the options as flags of a send request.
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
