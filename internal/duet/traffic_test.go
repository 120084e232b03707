package duet_test

import (
	"bytes"
	"encoding/binary"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func trafficPieces() []piece {
	return []piece{
		bothLead("messages", usual(), speak, listen),
		bothLead("a mebibyte", usual(), writeAndRead, (*conn).hear),
		bothLead("READs among WRITEs", usual(), readAmongWrites, (*conn).hear),
		bothLead("atomics", usual(), count, counted),
	}
}

// bothLead is a piece in which the players change their parts: first who connected
// leads, then who listened.
func bothLead(name string, m manners, lead, follow func(*conn)) piece {
	return piece{
		name: name,
		first: func(p *player) {
			c := p.connect(m)
			lead(c)
			c.tell()
			follow(c)
			c.hear()
			c.leave()
		},
		second: func(p *player) {
			c := p.accept(m)
			follow(c)
			c.hear()
			lead(c)
			c.lastWord()
		},
	}
}

// fill writes bytes that tell seed and place.
func fill(b []byte, seed uint64) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.NativeEndian.PutUint64(b[i:], (seed<<32+uint64(i)+1)*0x9e3779b97f4a7c15)
	}
}

// lengths are those around the path MTU, and some that take many packets.
func lengths() []int { return []int{0, 1, 1023, 1024, 1025, 4096, letterSize} }

func speak(c *conn) {
	fill(c.bytes(source, letterSize), 1)
	for i, n := range lengths() {
		wr := c.request(verbs.OpSend, source, n)
		if i%2 == 1 {
			wr.Opcode, wr.Imm = verbs.OpSendImm, 0xcafe0000+uint32(n)
		}
		c.post(wr)
		c.sends.one()
	}
}

func listen(c *conn) {
	want := make([]byte, letterSize)
	fill(want, 1)
	for i, n := range lengths() {
		wc := c.recvs.one()
		c.p.EqualValues(n, wc.ByteLen)
		c.p.True(bytes.Equal(want[:n], c.bytes(letter(int(wc.ID)), n)))
		if i%2 == 1 {
			c.p.NotZero(wc.Flags & verbs.WCWithImm)
			c.p.Equal(0xcafe0000+uint32(n), wc.Imm)
		}
		c.recv()
	}
}

// writeAndRead ends with a WRITE of no bytes that the peer hears of.
func writeAndRead(c *conn) {
	fill(c.bytes(source, mebibyte), 2)
	clear(c.bytes(sink, mebibyte))
	c.post(c.to(c.request(verbs.OpWrite, source, mebibyte), 0))
	c.sends.one()
	c.post(c.to(c.request(verbs.OpRead, sink, mebibyte), 0))
	c.sends.one()
	c.p.True(bytes.Equal(c.bytes(source, mebibyte), c.bytes(sink, mebibyte)))
	c.post(c.to(c.request(verbs.OpWriteImm, source, 0), 0))
	c.sends.one()
}

// readAmongWrites posts READs and WRITEs in turn, more than may be outstanding:
// each READ finds what the WRITE in front of it wrote.
func readAmongWrites(c *conn) {
	const rounds, size = 8, 32 << 10
	var wrs []verbs.SendWR
	clear(c.bytes(sink, rounds*size))
	for i := range rounds {
		fill(c.bytes(source+i*size, size), uint64(i))
		wrs = append(wrs,
			c.to(c.request(verbs.OpWrite, source+i*size, size), i*size),
			c.to(c.request(verbs.OpRead, sink+i*size, size), i*size))
	}
	c.post(wrs...)
	for i, wc := range c.sends.take(len(wrs), verbs.StatusSuccess) {
		c.p.EqualValues(i, wc.ID)
	}
	c.p.True(bytes.Equal(c.bytes(source, rounds*size), c.bytes(sink, rounds*size)))
	c.tell()
}

const (
	counter, lock = 64, 72 // places in what is shared
	additions     = 10
	step          = 3
)

// count adds to one word, and tries twice to take the other.
func count(c *conn) {
	for i := range uint64(additions) {
		wr := c.to(c.request(verbs.OpFetchAdd, sink, 8), counter)
		wr.CompareAdd = step
		c.post(wr)
		c.sends.one()
		c.p.Equal(i*step, c.word(sink))
	}
	for _, found := range []uint64{0, 42} {
		wr := c.to(c.request(verbs.OpCompareSwap, sink, 8), lock)
		wr.CompareAdd, wr.Swap = 0, 42+found
		c.post(wr)
		c.sends.one()
		c.p.Equal(found, c.word(sink))
	}
	c.tell()
}

func counted(c *conn) {
	c.hear()
	c.p.EqualValues(additions*step, c.word(shared+counter))
	c.p.EqualValues(42, c.word(shared+lock))
}
