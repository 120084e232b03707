package rsocket

// A Kind says what a message means.
type Kind uint8

const (
	// Data means that Message.Value bytes of the stream were written.
	Data Kind = iota
	// Credit means that the receiver of the message may send more. The lower 16 bits of
	// Message.Value are the number of all credits that the receiver has got so far, modulo
	// 2^16. The message may have written a segment to the receiver's table.
	Credit
	// Mapping means that the entry Message.Value of the receiver's table of mapped memory
	// was written.
	Mapping
	// Disconnect means that the sender neither reads nor writes any more.
	Disconnect
	// Keepalive has no effect. A correct peer does not send it.
	Keepalive
	// Shutdown means that the sender writes no more.
	Shutdown
)

// A Message is the immediate data of a WRITE of the protocol.
type Message struct {
	Kind  Kind
	Value uint32 // at most maxValue; zero unless the kind is Data, Credit or Mapping
}

// Values of the upper 3 bits of the immediate data.
const (
	opData    = 0
	opCredit  = 4
	opMapping = 6
	opControl = 7
)

// Values of the lower 29 bits of the immediate data for opControl.
const (
	controlDisconnect = iota
	controlKeepalive
	controlShutdown
)

const (
	opShift  = 29
	maxValue = 1<<opShift - 1
)

// imm returns the immediate data with the given upper 3 and lower 29 bits.
func imm(op, value uint32) uint32 { return op<<opShift | value }

// Imm returns the immediate data of the message.
func (m Message) Imm() uint32 {
	switch m.Kind {
	case Data:
		return imm(opData, m.Value)
	case Credit:
		return imm(opCredit, m.Value)
	case Mapping:
		return imm(opMapping, m.Value)
	case Keepalive:
		return imm(opControl, controlKeepalive)
	case Shutdown:
		return imm(opControl, controlShutdown)
	default:
		return imm(opControl, controlDisconnect)
	}
}

// Decode returns the message with the given immediate data. The error matches
// ErrProtocol. A data message without bytes is an error, because readers would take it
// for the end of the stream.
func Decode(imm uint32) (Message, error) {
	value := imm & maxValue
	switch op := imm >> opShift; op {
	case opData:
		if value == 0 {
			return Message{}, violation("a data message has no bytes")
		}
		return Message{Data, value}, nil
	case opCredit:
		return Message{Credit, value}, nil
	case opMapping:
		return Message{Mapping, value}, nil
	case opControl:
		switch value {
		case controlDisconnect:
			return Message{Kind: Disconnect}, nil
		case controlKeepalive:
			return Message{Kind: Keepalive}, nil
		case controlShutdown:
			return Message{Kind: Shutdown}, nil
		}
		return Message{}, violation("the control message %d is not defined", value)
	default:
		return Message{}, violation("the operation %d is not defined", op)
	}
}
