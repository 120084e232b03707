package duet_test

import "github.com/rdmaloop/rdmaloop/verbs"

// cleanScenarios require a network that loses no packet. They connect without retries,
// so a packet that the receiver drops as damaged ends the connection.
func cleanScenarios() []scenario {
	return []scenario{
		bothLead("without retries", noRetryParams(), requireNoDamage(sendMessages), requireNoDamage(receiveMessages)),
		bothLead("READs without retries", noRetryParams(), requireNoDamage(sendReads), requireNoDamage(waitForReads)),
	}
}

// requireNoDamage wraps do. It requires that the soft device counts no packet as
// damaged while do runs.
func requireNoDamage(do func(*conn)) func(*conn) {
	return func(c *conn) {
		before := c.p.damagedPackets()
		do(c)
		c.p.Equal(before, c.p.damagedPackets(), "the device dropped packets as damaged")
	}
}

// damagedPackets counts the packets whose ICRC the device has found wrong. It is 0 if
// the device is not the soft device.
func (p *peer) damagedPackets() (sum uint64) {
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

// noRetryParams sets no retries and a local ACK timeout of four seconds (code 20).
func noRetryParams() connParams {
	const ackTimeout = 20
	return connParams{recvBuffers: recvBuffers, rnrRetries: verbs.RNRRetryForever, ackTimeout: ackTimeout}
}

const (
	// messageCount is more messages than the soft device sends before it opens a
	// connected UDP socket to the peer.
	messageCount = 300
	// longMessage is the length of every fourth message in bytes: several packets.
	longMessage = 16 << 10
)

func messageLength(i int) int {
	if i%4 == 3 {
		return longMessage
	}
	return i
}

// sendMessages sends the messages one after the other.
func sendMessages(c *conn) {
	for i := range messageCount {
		c.post(c.newWR(verbs.OpSend, source, messageLength(i)))
		c.sends.takeOne()
	}
}

// receiveMessages requires the messages of sendMessages in their order.
func receiveMessages(c *conn) {
	for i := range messageCount {
		c.p.EqualValues(messageLength(i), c.recvs.takeOne().ByteLen)
		c.postRecv()
	}
}

// reads is the number of READs, each of readSize bytes. With a path MTU of 1024 the
// responses use a twentieth of the IPv4 identifications.
const (
	reads    = 100
	readSize = 32 << 10
)

// sendReads sends the READs one after the other, and signals their end to the peer.
func sendReads(c *conn) {
	for range reads {
		c.post(c.withRemote(c.newWR(verbs.OpRead, sink, readSize), 0))
		c.sends.takeOne()
	}
	c.signal()
}

// waitForReads waits until the peer has finished its READs.
func waitForReads(c *conn) { c.waitForSignal() }
