package pairtest_test

import (
	"bytes"
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func trafficScenarios() []scenario {
	return []scenario{
		bothLead("messages", defaultParams(), sendLengths, recvLengths),
		bothLead("a mebibyte", defaultParams(), writeAndRead, (*conn).waitForSignal),
		bothLead("READs among WRITEs", defaultParams(), readAmongWrites, (*conn).waitForSignal),
		bothLead("atomics", defaultParams(), addAndSwap, checkAtomics),
	}
}

// bothLead returns a scenario with the roles lead and follow. The active side leads
// first, and then the passive side.
func bothLead(name string, params connParams, lead, follow func(*conn)) scenario {
	return scenario{
		name: name,
		active: func(p *peer) {
			c := p.connect(params)
			lead(c)
			c.signal()
			follow(c)
			c.waitForSignal()
			c.disconnect()
		},
		passive: func(p *peer) {
			c := p.accept(params)
			follow(c)
			c.waitForSignal()
			lead(c)
			c.signalAndAwaitDisconnect()
		},
	}
}

// fill fills b with the pattern of the seed.
func fill(b []byte, seed uint64) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.NativeEndian.PutUint64(b[i:], (seed<<32+uint64(i)+1)*0x9e3779b97f4a7c15)
	}
}

// lengths returns message lengths. Some are near the path MTU, and some need many
// packets.
func lengths() []int { return []int{0, 1, 1023, 1024, 1025, 4096, recvBufferSize} }

// sendLengths sends a message of each length. Every second one has immediate data.
func sendLengths(c *conn) {
	fill(c.bytes(sourceArea, recvBufferSize), 1)
	for i, n := range lengths() {
		wr := c.newWR(verbs.OpSend, sourceArea, n)
		if i%2 == 1 {
			wr.Opcode, wr.Imm = verbs.OpSendImm, 0xcafe0000+uint32(n)
		}
		c.post(wr)
		c.sends.takeOne()
	}
}

// recvLengths checks that the messages of sendLengths arrive.
func recvLengths(c *conn) {
	want := make([]byte, recvBufferSize)
	fill(want, 1)
	for i, n := range lengths() {
		wc := c.recvs.takeOne()
		c.p.EqualValues(n, wc.ByteLen)
		c.p.True(bytes.Equal(want[:n], c.bytes(recvOffset(int(wc.ID)), n)))
		if i%2 == 1 {
			c.p.NotZero(wc.Flags & verbs.WCWithImm)
			c.p.Equal(0xcafe0000+uint32(n), wc.Imm)
		}
		c.postRecv()
	}
}

// writeAndRead writes a mebibyte to the peer's memory and reads it back. At the end, an
// empty WRITE with immediate data signals the peer.
func writeAndRead(c *conn) {
	fill(c.bytes(sourceArea, mebibyte), 2)
	clear(c.bytes(sinkArea, mebibyte))
	c.post(c.withRemote(c.newWR(verbs.OpWrite, sourceArea, mebibyte), 0))
	c.sends.takeOne()
	c.post(c.withRemote(c.newWR(verbs.OpRead, sinkArea, mebibyte), 0))
	c.sends.takeOne()
	c.p.True(bytes.Equal(c.bytes(sourceArea, mebibyte), c.bytes(sinkArea, mebibyte)))
	c.post(c.withRemote(c.newWR(verbs.OpWriteImm, sourceArea, 0), 0))
	c.sends.takeOne()
}

// readAmongWrites posts WRITEs and READs in turn, with more READs than may be
// outstanding. Each READ must return the data of the WRITE before it.
func readAmongWrites(c *conn) {
	const rounds, size = 8, 32 << 10
	var wrs []verbs.SendWR
	clear(c.bytes(sinkArea, rounds*size))
	for i := range rounds {
		fill(c.bytes(sourceArea+i*size, size), uint64(i))
		wrs = append(wrs,
			c.withRemote(c.newWR(verbs.OpWrite, sourceArea+i*size, size), i*size),
			c.withRemote(c.newWR(verbs.OpRead, sinkArea+i*size, size), i*size))
	}
	c.post(wrs...)
	for i, wc := range c.sends.take(len(wrs), verbs.StatusSuccess) {
		c.p.EqualValues(i, wc.ID)
	}
	c.p.True(bytes.Equal(c.bytes(sourceArea, rounds*size), c.bytes(sinkArea, rounds*size)))
	c.signal()
}

const (
	// offsets in the shared area of the words for fetch-and-add and for compare-and-swap
	sumOffset, lockOffset = 64, 72
	additions             = 10
	step                  = 3
)

// addAndSwap adds to the peer's word at sumOffset. Then it tries twice to change the word
// at lockOffset from 0 to another value. Only the first try succeeds.
func addAndSwap(c *conn) {
	for i := range uint64(additions) {
		wr := c.withRemote(c.newWR(verbs.OpFetchAdd, sinkArea, 8), sumOffset)
		wr.CompareAdd = step
		c.post(wr)
		c.sends.takeOne()
		c.p.Equal(i*step, c.uint64At(sinkArea))
	}
	for _, found := range []uint64{0, 42} {
		wr := c.withRemote(c.newWR(verbs.OpCompareSwap, sinkArea, 8), lockOffset)
		wr.CompareAdd, wr.Swap = 0, 42+found
		c.post(wr)
		c.sends.takeOne()
		c.p.Equal(found, c.uint64At(sinkArea))
	}
	c.signal()
}

// checkAtomics checks the values that the peer's addAndSwap has written.
func checkAtomics(c *conn) {
	c.waitForSignal()
	c.p.EqualValues(additions*step, c.uint64At(sharedArea+sumOffset))
	c.p.EqualValues(42, c.uint64At(sharedArea+lockOffset))
}
