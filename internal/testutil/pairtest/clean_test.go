package pairtest_test

import "github.com/rdmaloop/rdmaloop/verbs"

// cleanScenarios returns scenarios for a network that neither loses nor damages packets.
// The connections of these scenarios have a retry count of zero. If a receiver drops an
// undamaged packet because it wrongly takes the packet for damaged, the connection ends
// and the scenario fails.
func cleanScenarios() []scenario {
	return []scenario{
		bothLead("without retries", noRetryParams(), requireNoDamage(sendMessages), requireNoDamage(receiveMessages)),
		bothLead("READs without retries", noRetryParams(), requireNoDamage(sendReads), requireNoDamage(waitForReads)),
	}
}

// requireNoDamage returns a function that calls do, and requires that the device drops no
// packet as damaged during that call.
func requireNoDamage(do func(*conn)) func(*conn) {
	return func(c *conn) {
		before := c.p.damagedPackets()
		do(c)
		c.p.Equal(before, c.p.damagedPackets(), "the device dropped packets as damaged")
	}
}

// damagedPackets returns how many packets the soft device has dropped as damaged, because
// their ICRC was wrong or because the identification computed from it did not fit. For
// any other device it returns 0.
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
	// messageCount is the number of messages of a scenario. At first the soft device
	// sends them through a UDP socket that is not connected. After a number of messages
	// that is smaller than messageCount, it opens a connected UDP socket for the peer.
	// So the scenario tests the packets of both sockets.
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
		c.post(c.newWR(verbs.OpSend, sourceArea, messageLength(i)))
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

// A scenario posts readCount READs. Each READ has readSize bytes. With a path MTU of
// 1024, their responses are 3200 packets. That is about a twentieth of the 65536
// identifications of IPv4.
const (
	readCount = 100
	readSize  = 32 << 10
)

// sendReads posts READs one after another: it waits for the completion of each READ
// before it posts the next. At the end it signals the peer.
func sendReads(c *conn) {
	for range readCount {
		c.post(c.withRemote(c.newWR(verbs.OpRead, sinkArea, readSize), 0))
		c.sends.takeOne()
	}
	c.signal()
}

// waitForReads waits until the peer has signaled that all its READs have completed.
func waitForReads(c *conn) { c.waitForSignal() }
