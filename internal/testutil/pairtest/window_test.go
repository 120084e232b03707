package pairtest_test

import (
	"bytes"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func windowScenarios() []scenario {
	return []scenario{bothLead("windows", defaultParams(), showWindows, useWindows)}
}

// windowRounds is how often a window is bound. Each time, the window gets the next of its
// 256 keys. After the last key, the first one is used again.
const windowRounds = 300

// windowSize is the size of each window in bytes. With a path MTU of 1024, it needs
// several packets.
const windowSize = 4 << 10

// showWindows binds a window again and again. Each time it sends the key to the peer,
// which gives the window back with a SEND with invalidate.
func showWindows(c *conn) {
	mr, err := c.p.pd.Alloc(&verbs.AllocAttr{Size: mebibyte, Access: verbs.AccessLocalWrite | verbs.AccessMWBind})
	c.p.NoError(err)
	defer func() { c.p.NoError(mr.Close()) }()
	w, err := c.p.pd.AllocMW()
	c.p.NoError(err)
	defer func() { c.p.NoError(w.Close()) }()
	for i := range windowRounds {
		at := i * windowSize % mebibyte
		shown := mr.Bytes()[at : at+windowSize]
		fill(shown, uint64(i))
		c.post(verbs.SendWR{
			Opcode: verbs.OpBindMW, RKey: verbs.IncRKey(w.RKey()), Flags: verbs.SendSignaled,
			Bind: &verbs.MWBind{
				MW: w, MR: mr, Addr: mr.Addr() + uint64(at), Length: windowSize,
				Access: verbs.AccessRemoteRead | verbs.AccessRemoteWrite,
			},
		})
		c.p.Equal(verbs.WCBindMW, c.sends.takeOne().Opcode)
		c.sendKey(mr.Addr()+uint64(at), w.RKey())
		wc := c.recvs.takeOne()
		c.p.NotZero(wc.Flags & verbs.WCWithInv)
		c.p.Equal(w.RKey(), wc.Imm)
		c.postRecv()
		want := make([]byte, windowSize)
		fill(want, uint64(i))
		c.p.Equal(want[:windowSize/2], shown[windowSize/2:])
	}
}

// useWindows reads each window that the peer shows. It copies the first half of the
// window to the second half, and gives the window back.
func useWindows(c *conn) {
	for i := range windowRounds {
		addr, key := c.receiveKey()
		read := c.newWR(verbs.OpRead, sinkArea, windowSize)
		read.RemoteAddr, read.RKey = addr, key
		c.post(read)
		c.sends.takeOne()
		want := make([]byte, windowSize)
		fill(want, uint64(i))
		c.p.True(bytes.Equal(want, c.bytes(sinkArea, windowSize)))
		write := c.newWR(verbs.OpWrite, sinkArea, windowSize/2)
		write.RemoteAddr, write.RKey = addr+windowSize/2, key
		back := c.newWR(verbs.OpSendInv, sourceArea, 8)
		back.RKey = key
		c.post(write, back)
		c.sends.take(2, verbs.StatusSuccess)
	}
}

// sendKey sends an address and a key to the peer's receiveKey. It sends the address in
// the message, and the key as immediate data.
func (c *conn) sendKey(addr uint64, key uint32) {
	c.p.t.Helper()
	c.setUint64(sourceArea, addr)
	wr := c.newWR(verbs.OpSendImm, sourceArea, 8)
	wr.Imm = key
	c.post(wr)
	c.sends.takeOne()
}

func (c *conn) receiveKey() (addr uint64, key uint32) {
	c.p.t.Helper()
	wc := c.recvs.takeOne()
	c.p.NotZero(wc.Flags & verbs.WCWithImm)
	addr = c.uint64At(recvOffset(int(wc.ID)))
	c.postRecv()
	return addr, wc.Imm
}
