package duet_test

import "github.com/rdmaloop/rdmaloop/verbs"

// cleanPieces are for links that lose nothing: what an end drops because it finds
// it wrong is not sent again, and so ends the connection.
func cleanPieces() []piece {
	return []piece{
		bothLead("without a retry", impatient(), undamaged(chatter), undamaged(hearken)),
		bothLead("READs without a retry", impatient(), undamaged(readers), undamaged(read)),
	}
}

// undamaged wraps do. It requires that the soft device counts no packet as damaged
// while do runs.
func undamaged(do func(*conn)) func(*conn) {
	return func(c *conn) {
		before := c.p.damaged()
		do(c)
		c.p.Equal(before, c.p.damaged(), "packets that are right were dropped")
	}
}

// damaged counts the packets whose ICRC the device has found wrong. It is 0 if the
// device is not the soft device.
func (p *player) damaged() (sum uint64) {
	reader, ok := p.device.(verbs.CounterReader)
	if !ok {
		return 0
	}
	counters, err := reader.Counters(1)
	p.NoError(err)
	for _, counter := range counters {
		if counter.Name == "rx_icrc_encapsulated" || counter.Name == "rcvd_ident_err" {
			sum += counter.Value
		}
	}
	return sum
}

// impatient ones do not retry, but wait for long: for four seconds.
func impatient() manners {
	const ackTimeout = 20
	return manners{letters: letters, rnrRetries: verbs.RNRRetryForever, ackTimeout: ackTimeout}
}

const (
	// words is how many messages there are, more than an end sends before it takes
	// a peer for one that it talks to often.
	words = 300
	// wordSize is how long every fourth is: several packets.
	wordSize = 16 << 10
)

func wordLength(i int) int {
	if i%4 == 3 {
		return wordSize
	}
	return i
}

// chatter sends many messages, one after the other.
func chatter(c *conn) {
	for i := range words {
		c.post(c.request(verbs.OpSend, source, wordLength(i)))
		c.sends.one()
	}
}

func hearken(c *conn) {
	for i := range words {
		c.p.EqualValues(wordLength(i), c.recvs.one().ByteLen)
		c.recv()
	}
}

// reads is the number of READs, each of readSize bytes. With a path MTU of 1024 the
// responses use a twentieth of the IPv4 identifications.
const (
	reads    = 100
	readSize = 32 << 10
)

// readers sends the READs one after the other.
func readers(c *conn) {
	for range reads {
		c.post(c.to(c.request(verbs.OpRead, sink, readSize), 0))
		c.sends.one()
	}
	c.tell()
}

// read waits until the peer has finished its READs.
func read(c *conn) { c.hear() }
