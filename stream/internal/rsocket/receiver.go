package rsocket

// A Receiver checks what the peer has written to the ring, and decides when to offer the
// peer more memory and credits. Only one goroutine at a time may use it.
type Receiver struct {
	ring   []byte // memory of the ring; its two halves are offered in turn
	first  Segment
	credit int // number of credits that the peer had at first

	peer  Table // table of the peer
	order bool  // true if the table of the peer is big endian
	index uint32

	// The next fields count bytes of the stream: read <= written <= offered.
	read    uint64 // bytes that the application has read
	written uint64 // bytes that the peer has written
	offered uint64 // bytes of the segments that were offered to the peer

	// lengths has the lengths of the messages that were not read completely. The slice is a
	// ring: the oldest message has the index messagesRead modulo len(lengths).
	lengths []uint32
	// messages counts the data messages of the peer, and messagesRead those that were read
	// completely.
	messages, messagesRead uint64
	// messagesAnnounced is the value of messagesRead in the last credit message.
	messagesAnnounced uint64

	segment [SegmentSize]byte // memory for Offer, so that it does not allocate
}

// NewReceiver returns a Receiver. The parameter ring is the memory of the ring, of an
// even number of bytes, and own is the Hello of this side: own.First is the first half of
// the ring. The parameter peer is the Hello of the peer.
func NewReceiver(ring []byte, own, peer *Hello) *Receiver {
	return &Receiver{
		ring: ring, first: own.First, credit: int(own.Credits),
		peer: peer.Table, order: peer.BigEndian, index: 1 % peer.Table.Entries,
		offered: uint64(own.First.Length), lengths: make([]uint32, own.Credits),
	}
}

// half returns the length of half of the ring in bytes.
func (r *Receiver) half() uint64 { return uint64(len(r.ring) / 2) }

// Data handles a data message of n bytes. The error matches ErrProtocol.
func (r *Receiver) Data(n uint32) error {
	left := r.half() - r.written%r.half()
	switch {
	case r.messages == r.messagesAnnounced+uint64(r.credit):
		return violation("a data message without a credit")
	case r.written+uint64(n) > r.offered:
		return violation("%d bytes for a segment that has %d bytes left", n, r.offered-r.written)
	case uint64(n) > left:
		return violation("%d bytes for a segment that has %d bytes left", n, left)
	}
	r.lengths[r.messages%uint64(len(r.lengths))] = n
	r.messages++
	r.written += uint64(n)
	return nil
}

// Len returns the number of bytes that can be read.
func (r *Receiver) Len() int { return int(r.written - r.read) }

// Bytes returns bytes that can be read, and leaves them unread. The result is shorter
// than Len if the bytes continue at the beginning of the ring. The peer may still change
// the bytes.
func (r *Receiver) Bytes() []byte {
	if r.Len() == 0 {
		return nil
	}
	at := r.read % uint64(len(r.ring))
	end := min(at+r.written-r.read, uint64(len(r.ring)))
	return r.ring[at:end]
}

// Clear drops the bytes that were not read. Afterwards the Receiver does not use the
// ring.
func (r *Receiver) Clear() { r.ring, r.read = nil, r.written }

// Read records that the application has read n bytes, at most Len.
func (r *Receiver) Read(n int) {
	r.read += uint64(n)
	for left := uint32(n); left > 0; {
		oldest := &r.lengths[r.messagesRead%uint64(len(r.lengths))]
		part := min(left, *oldest)
		*oldest -= part
		left -= part
		if *oldest == 0 {
			r.messagesRead++
		}
	}
}

// An Offer is a credit message that is due.
type Offer struct {
	Message Message
	// To is the place in the table of the peer to which Segment is written.
	To Table
	// Segment is the encoded segment that the message writes. If HasSegment is false, the
	// message writes nothing.
	Segment    [SegmentSize]byte
	HasSegment bool
}

// Offer returns the credit message that is due. If none is due, ok is false. The caller
// sends the message. A message is due if half of the ring is free and was not offered, or
// if the application has read half as many messages as the peer had credits at first.
func (r *Receiver) Offer() (o Offer, ok bool) {
	o.HasSegment = r.offered-r.read <= r.half()
	if !o.HasSegment && r.messagesRead-r.messagesAnnounced < uint64(r.credit/2) {
		return Offer{}, false
	}
	r.messagesAnnounced = r.messagesRead
	o.Message = Message{Credit, uint32(uint16(r.messagesRead + uint64(r.credit)))}
	if o.HasSegment {
		s := Segment{Addr: r.first.Addr + r.offered%uint64(len(r.ring)), Key: r.first.Key, Length: uint32(r.half())}
		s.put(r.segment[:], byteOrder(r.order))
		o.Segment = r.segment
		o.To = Table{Addr: r.peer.Addr + uint64(r.index)*SegmentSize, Key: r.peer.Key, Entries: 1}
		r.offered += r.half()
		r.index = (r.index + 1) % r.peer.Entries
	}
	return o, true
}
