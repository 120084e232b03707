package reactor

import "github.com/rdmaloop/rdmaloop/verbs"

// An Op names a finished operation to OnCompletion.
type Op struct {
	Code  verbs.Opcode
	Tag   uint64 // SendOptions.Tag
	Bytes uint32 // bytes of payload, 8 for the atomics
	// Value is what an atomic found at the peer before it changed it; valid
	// when it succeeded.
	Value uint64
}

// SendOptions modify one operation. The zero value is plain.
type SendOptions struct {
	// Tag comes back in Op.Tag.
	Tag uint64
	// Notify asks for OnCompletion; one-sided operations have it always.
	Notify bool
	// Imm is sent along as immediate data if HasImm is set; messages only.
	Imm    uint32
	HasImm bool
	// Solicited wakes a peer that sleeps for solicited messages only.
	Solicited bool
	// Fence starts the operation when the READs and atomics before it have
	// completed.
	Fence bool
}

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
