package pairtest_test

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// cleanScenarios returns scenarios for a network without faults. Their connections do not
// retry, so they fail if a receiver drops a packet.
func cleanScenarios() []scenario {
	return []scenario{
		bothLead("without retries", noRetryParams(), requireNoDamage(sendMessages), requireNoDamage(receiveMessages)),
		bothLead("READs without retries", noRetryParams(), requireNoDamage(sendReads), requireNoDamage(waitForReads)),
	}
}

// requireNoDamage wraps do() in a check that the device drops no packet as damaged.
func requireNoDamage(do func(*conn)) func(*conn) {
	return func(c *conn) {
		before := c.p.damagedPackets()
		do(c)
		c.p.Equal(before, c.p.damagedPackets(), "the device dropped packets as damaged")
	}
}

// damagedPackets returns how many packets the soft device has dropped as damaged. For
// other devices it returns 0.
func (p *peer) damagedPackets() (sum uint64) {
	counters, err := p.device.Counters(1)
	if errors.Is(err, verbs.ErrNotSupported) {
		return 0
	}
	p.NoError(err)
	for _, counter := range counters {
		if counter.Name == "rx_icrc_encapsulated" || counter.Name == "rcvd_ident_err" {
			sum += counter.Value
		}
	}
	return sum
}

// noRetryParams returns parameters without retries. The local ACK timeout is 4 s (code
// 20).
func noRetryParams() connParams {
	const ackTimeout = 20
	return connParams{recvBuffers: recvBuffers, retries: -1, rnrRetries: verbs.RNRRetryForever, ackTimeout: ackTimeout}
}

const (
	// Messages in a scenario. The number is large enough that the soft device opens a
	// connected UDP socket.
	messageCount = 300
	// Length in bytes of every fourth message, which needs several packets.
	longMessage = 16 << 10
)

func messageLength(i int) int {
	if i%4 == 3 {
		return longMessage
	}
	return i
}

func sendMessages(c *conn) {
	for i := range messageCount {
		c.post(c.newWR(verbs.OpSend, sourceArea, messageLength(i)))
		c.sends.takeOne()
	}
}

// receiveMessages checks that the messages of sendMessages arrive in order.
func receiveMessages(c *conn) {
	for i := range messageCount {
		c.p.EqualValues(messageLength(i), c.recvs.takeOne().ByteLen)
		c.postRecv()
	}
}

// A scenario posts readCount READs of readSize bytes. With a path MTU of 1024, the
// responses are 3200 packets.
const (
	readCount = 100
	readSize  = 32 << 10
)

// sendReads posts READs one after another. Then it signals the peer.
func sendReads(c *conn) {
	for range readCount {
		c.post(c.withRemote(c.newWR(verbs.OpRead, sinkArea, readSize), 0))
		c.sends.takeOne()
	}
	c.signal()
}

// waitForReads waits until the peer's READs have completed.
func waitForReads(c *conn) { c.waitForSignal() }
