package duet_test

import "github.com/rdmaloop/rdmaloop/verbs"

// cleanPieces are for links that lose nothing: what an end drops because it finds
// it wrong is not sent again, and so ends the connection.
func cleanPieces() []piece {
	return []piece{bothLead("without a retry", impatient(), chatter, hearken)}
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
