package wire

import "fmt"

// An Opcode is the operation code of a packet. It determines the extended headers. Its
// top three bits are the transport service. Source: IBTA vol. 1, 9.2.
type Opcode uint8

// Opcodes of reliable connections.
const (
	SendFirst Opcode = iota
	SendMiddle
	SendLast
	SendLastImm
	SendOnly
	SendOnlyImm
	WriteFirst
	WriteMiddle
	WriteLast
	WriteLastImm
	WriteOnly
	WriteOnlyImm
	ReadRequest
	ReadResponseFirst
	ReadResponseMiddle
	ReadResponseLast
	ReadResponseOnly
	Acknowledge
	AtomicAcknowledge
	CompareSwap
	FetchAdd
	_ // 0x15 is reserved
	SendLastInv
	SendOnlyInv
)

// Opcodes of unreliable datagrams and of congestion notification packets. CNPs are
// described in IBTA annex A17.9.3. The software device ignores them.
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
	CNP           Opcode = 0x81
)

// A Transport is a transport service.
type Transport uint8

// Transport services that this package supports.
const (
	RC Transport = 0b000 // reliable connection
	UD Transport = 0b011 // unreliable datagram
)

// A Kind says what a packet does. All packets of a message have the same Kind.
type Kind uint8

// Kinds of packets.
const (
	// Reserved opcode, or not supported by this package.
	KindUnknown Kind = iota
	KindSend
	KindWrite
	KindRead
	KindAtomic
	KindReadResponse
	// ACK, NAK or RNR NAK. The AETH says which.
	KindAcknowledge
	KindAtomicAcknowledge
	KindCongestion
)

// A payloadRule limits the payload length of an opcode. Source: IBTA vol. 1, 9.7.4.1.
type payloadRule uint8

const (
	payloadNone payloadRule = iota // no payload
	payloadFull                    // exactly the path MTU
	payloadSome                    // 1 byte to the path MTU
	payloadAny                     // 0 bytes to the path MTU
)

// A format describes the packets that have one opcode.
type format struct {
	name string
	kind Kind
	// Position in the message. A single packet is first and last.
	first, last bool
	headers     headerSet
	extended    uint8 // total size of the extended headers in bytes
	payload     payloadRule
}

// formats has the format of each opcode. It is never changed.
var formats = withSizes([256]format{
	SendFirst:          {name: "SEND_FIRST", kind: KindSend, first: true, payload: payloadFull},
	SendMiddle:         {name: "SEND_MIDDLE", kind: KindSend, payload: payloadFull},
	SendLast:           {name: "SEND_LAST", kind: KindSend, last: true, payload: payloadSome},
	SendLastImm:        {name: "SEND_LAST_IMM", kind: KindSend, last: true, headers: hasImm, payload: payloadSome},
	SendOnly:           {name: "SEND_ONLY", kind: KindSend, first: true, last: true, payload: payloadAny},
	SendOnlyImm:        {name: "SEND_ONLY_IMM", kind: KindSend, first: true, last: true, headers: hasImm, payload: payloadAny},
	WriteFirst:         {name: "WRITE_FIRST", kind: KindWrite, first: true, headers: hasRETH, payload: payloadFull},
	WriteMiddle:        {name: "WRITE_MIDDLE", kind: KindWrite, payload: payloadFull},
	WriteLast:          {name: "WRITE_LAST", kind: KindWrite, last: true, payload: payloadSome},
	WriteLastImm:       {name: "WRITE_LAST_IMM", kind: KindWrite, last: true, headers: hasImm, payload: payloadSome},
	WriteOnly:          {name: "WRITE_ONLY", kind: KindWrite, first: true, last: true, headers: hasRETH, payload: payloadAny},
	WriteOnlyImm:       {name: "WRITE_ONLY_IMM", kind: KindWrite, first: true, last: true, headers: hasRETH | hasImm, payload: payloadAny},
	ReadRequest:        {name: "READ_REQUEST", kind: KindRead, first: true, last: true, headers: hasRETH},
	ReadResponseFirst:  {name: "READ_RESPONSE_FIRST", kind: KindReadResponse, first: true, headers: hasAETH, payload: payloadFull},
	ReadResponseMiddle: {name: "READ_RESPONSE_MIDDLE", kind: KindReadResponse, payload: payloadFull},
	ReadResponseLast:   {name: "READ_RESPONSE_LAST", kind: KindReadResponse, last: true, headers: hasAETH, payload: payloadSome},
	ReadResponseOnly:   {name: "READ_RESPONSE_ONLY", kind: KindReadResponse, first: true, last: true, headers: hasAETH, payload: payloadAny},
	Acknowledge:        {name: "ACKNOWLEDGE", kind: KindAcknowledge, first: true, last: true, headers: hasAETH},
	AtomicAcknowledge:  {name: "ATOMIC_ACKNOWLEDGE", kind: KindAtomicAcknowledge, first: true, last: true, headers: hasAETH | hasAtomicAckETH},
	CompareSwap:        {name: "COMPARE_SWAP", kind: KindAtomic, first: true, last: true, headers: hasAtomicETH},
	FetchAdd:           {name: "FETCH_ADD", kind: KindAtomic, first: true, last: true, headers: hasAtomicETH},
	SendLastInv:        {name: "SEND_LAST_INV", kind: KindSend, last: true, headers: hasIETH, payload: payloadSome},
	SendOnlyInv:        {name: "SEND_ONLY_INV", kind: KindSend, first: true, last: true, headers: hasIETH, payload: payloadAny},
	UDSendOnly:         {name: "UD_SEND_ONLY", kind: KindSend, first: true, last: true, headers: hasDETH, payload: payloadAny},
	UDSendOnlyImm:      {name: "UD_SEND_ONLY_IMM", kind: KindSend, first: true, last: true, headers: hasDETH | hasImm, payload: payloadAny},
	CNP:                {name: "CNP", kind: KindCongestion, first: true, last: true, headers: hasCNP},
})

// withSizes sets the field extended of each format.
func withSizes(table [256]format) [256]format {
	for i := range table {
		table[i].extended = uint8(table[i].headers.size())
	}
	return table
}

// Transport returns the transport service.
func (o Opcode) Transport() Transport { return Transport(o >> 5) }

// Kind returns the kind of operation, or KindUnknown.
func (o Opcode) Kind() Kind { return formats[o].kind }

// First reports whether the packet begins a message. FIRST and ONLY packets do.
func (o Opcode) First() bool { return formats[o].first }

// Last reports whether the packet ends a message. LAST and ONLY packets do.
func (o Opcode) Last() bool { return formats[o].last }

// Response reports whether the packet goes from the responder to the requester.
func (o Opcode) Response() bool {
	k := o.Kind()
	return k == KindReadResponse || k == KindAcknowledge || k == KindAtomicAcknowledge
}

// HasImm reports whether the packet carries immediate data.
func (o Opcode) HasImm() bool { return formats[o].headers&hasImm != 0 }

// Size returns the length of a packet in bytes, from the BTH to the ICRC. The parameter
// is the length of the payload.
func (o Opcode) Size(payload int) int { return o.headerSize() + payload + pad(payload) + ICRCSize }

// FitsPayload reports whether a packet may have a payload of n bytes. The path MTU is in
// bytes. If the length is wrong, the responder answers with a NAK. Source: IBTA vol. 1,
// 9.7.4.1.
func (o Opcode) FitsPayload(n, mtu int) bool {
	switch formats[o].payload {
	case payloadFull:
		return n == mtu
	case payloadSome:
		return n > 0 && n <= mtu
	case payloadAny:
		return n >= 0 && n <= mtu
	}
	return n == 0
}

func (o Opcode) String() string {
	if name := formats[o].name; name != "" {
		return name
	}
	return fmt.Sprintf("opcode %#02x", uint8(o))
}

// headerSize returns the length of all headers in bytes.
func (o Opcode) headerSize() int { return BTHSize + int(formats[o].extended) }

// pad returns the number of bytes after a payload, to make its length a multiple of four.
func pad(payload int) int { return -payload & 3 }
