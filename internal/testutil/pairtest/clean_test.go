package pairtest_test

import "github.com/rdmaloop/rdmaloop/verbs"

// cleanScenarios returns scenarios in which no packet may be lost or damaged. Their
// connections are made without retries. If the receiver drops an intact packet because
// it takes it for damaged, the connection ends and the scenario fails.
func cleanScenarios() []scenario {
	return []scenario{
		bothLead("without retries", noRetryParams(), requireNoDamage(sendMessages), requireNoDamage(receiveMessages)),
		bothLead("READs without retries", noRetryParams(), requireNoDamage(sendReads), requireNoDamage(waitForReads)),
	}
}

// requireNoDamage returns a function that runs do, and requires that the soft device has
// not dropped any packet as damaged meanwhile.
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

// noRetryParams returns parameters with a retry count of zero and a local ACK timeout of
// four seconds (code 20).
func noRetryParams() connParams {
	const ackTimeout = 20
	return connParams{recvBuffers: recvBuffers, retries: -1, rnrRetries: verbs.RNRRetryForever, ackTimeout: ackTimeout}
}

const (
	// messageCount is the number of messages of a scenario. The soft device opens a
	// connected UDP socket to a peer after fewer messages.
	messageCount = 300
	// longMessage is the length in bytes of every fourth message. A message of this
	// length needs several packets.
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

// receiveMessages requires that the messages of sendMessages arrive in their order.
func receiveMessages(c *conn) {
	for i := range messageCount {
		c.p.EqualValues(messageLength(i), c.recvs.takeOne().ByteLen)
		c.postRecv()
	}
}

// reads is the number of READs, and readSize is the length of each in bytes. With a path
// MTU of 1024 the responses use a twentieth of the IPv4 identifications.
const (
	reads    = 100
	readSize = 32 << 10
)

// sendReads makes the READs one after the other, and then signals the peer.
func sendReads(c *conn) {
	for range reads {
		c.post(c.withRemote(c.newWR(verbs.OpRead, sink, readSize), 0))
		c.sends.takeOne()
	}
	c.signal()
}

// waitForReads waits until the peer has signaled that its READs have completed.
func waitForReads(c *conn) { c.waitForSignal() }
