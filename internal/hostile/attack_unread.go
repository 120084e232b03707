//go:build linux

package hostile

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/stream"
)

// The attack takes a connection on which nothing could be written for this time as
// blocked. Arbitrary.
const blockedAfter = 300 * time.Millisecond

// sendUnread opens Spec.Conns streams. On each it writes until the server takes no more,
// and reads nothing. Attack.SentBytes counts the bytes that the streams have taken, and
// Attack.Refused the streams that the server has ended.
func sendUnread(a *attacker) (err error) {
	device, err := soft.Open(&soft.Config{Path: a.spec.Path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	network, err := stream.New(device, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	var all sync.WaitGroup
	for range max(a.spec.Conns, 1) {
		c, err := network.Dial("tcp", a.spec.Addr.String())
		if err != nil {
			return err
		}
		a.count(func(n *Attack) { n.Admitted++ })
		all.Go(func() { a.fill(c) })
	}
	all.Wait()
	a.waitForStop()
	return nil
}

// fill writes to a stream until nothing more can be written.
func (a *attacker) fill(c net.Conn) {
	piece := make([]byte, 64<<10)
	for {
		_ = c.SetWriteDeadline(time.Now().Add(blockedAfter)) // Write returns an error of c, too.
		sent, err := c.Write(piece)
		a.count(func(n *Attack) { n.Sent++; n.SentBytes += uint64(sent) })
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			a.count(func(n *Attack) { n.Refused++ })
			return
		}
	}
}
