package reactor

import (
	"fmt"
	"math"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// checkDevices checks the configuration against the limits of all devices that exist when
// New is called, and returns these devices. Devices that are added later are checked at their
// first use.
func (c *Config) checkDevices(p cm.Provider) ([]verbs.Device, error) {
	devices, err := p.Devices()
	if err != nil {
		return nil, err
	}
	for _, dev := range devices {
		if err := c.checkDevice(dev); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

// checkDevice checks the configuration against the limits of one device.
func (c *Config) checkDevice(dev verbs.Device) error {
	op := "use " + dev.Name()
	attr, caps := dev.Attr(), dev.Caps()
	if err := operr.CheckRange("MaxPieces", c.Transport.MaxPieces, 0, attr.MaxSGE); err != nil {
		return operr.Wrap(op, err)
	}
	if caps.ProgressManual && c.NumLoops > attr.NumCompVectors {
		return operr.Wrap(op, tooManyLoops(c.NumLoops, attr.NumCompVectors))
	}
	// A CQ needs entries for MaxInFlight sends, one probe, long messages and the receives.
	other := 1 + c.longSlots()
	if shared := c.sharedRecvSizes(dev).base; shared > 0 {
		if err := c.checkSharedRecv(attr); err != nil {
			return operr.Wrap(op, err)
		}
		return operr.Wrap(op, operr.CheckRange("MaxInFlight", c.MaxInFlight, 1, min(attr.MaxQPWR-other, attr.MaxCQE-other-shared)))
	}
	if err := operr.CheckRange("MaxInFlight", c.MaxInFlight, 1, min(attr.MaxQPWR-other, (attr.MaxCQE-other)/2)); err != nil {
		return operr.Wrap(op, err)
	}
	return operr.Wrap(op, c.checkMinRecv(min(attr.MaxQPWR, attr.MaxCQE-other-c.MaxInFlight)/2))
}

// defaultMaxPieces is the largest number of pieces if Config.Transport.MaxPieces is zero.
// Arbitrary.
const defaultMaxPieces = 4

// maxPieces returns how many pieces an operation on a device may have.
func (c *Config) maxPieces(dev verbs.Device) int {
	if c.Transport.MaxPieces > 0 {
		return c.Transport.MaxPieces
	}
	return min(defaultMaxPieces, dev.Attr().MaxSGE)
}

// checkSharedRecv checks the size of the shared receive queue. It must have room for the
// buffers of at least one connection.
func (c *Config) checkSharedRecv(attr verbs.DeviceAttr) error {
	most := min(attr.MaxSRQWR, attr.MaxCQE)
	if err := operr.CheckRange("SharedRecvBuffers", c.Memory.SharedRecvBuffers, 0, most); err != nil {
		return err
	}
	return c.checkMinRecv(min(attr.MaxSRQWR, attr.MaxCQE-1-c.longSlots()-c.MaxInFlight) - sharedRecvBatch)
}

// checkMinRecv checks Config.Memory.MinRecvBuffers. The parameter limit is how many buffers a
// connection can have on the device if the loop has no other connection.
func (c *Config) checkMinRecv(limit int) error {
	if c.Memory.MinRecvBuffers == 0 {
		return nil
	}
	return operr.CheckRange("MinRecvBuffers", c.Memory.MinRecvBuffers, 1, limit)
}

// These constants determine the number of shared receive buffers if
// Config.Memory.SharedRecvBuffers is zero. With one connection and messages of 4 KiB on the
// local path, a round trip took 1.7 µs with 63 and with 256 buffers. With 1024 buffers it
// took 2.0 µs: all buffers are used in turn, and 1024 buffers do not fit into the cache
// of a processor. Many connections need more buffers, for messages that arrive at the
// same time.
const (
	defaultSharedRecv     = 256  // number of shared buffers for up to 64 connections
	defaultRecvPerConn    = 4    // number for each of more than 64 connections
	defaultMostSharedRecv = 1024 // largest number of shared buffers
)

// sharedRecvSizes limits the number of shared receive buffers of a loop on a device. If
// each connection has a receive queue of its own, all fields are 0.
type sharedRecvSizes struct {
	base  int // smallest number of buffers
	most  int // largest number of buffers if Config.Memory.MinRecvBuffers is zero
	limit int // largest number of buffers if Config.Memory.MinRecvBuffers is not zero
}

// sharedRecvSizes returns the limits of the number of shared receive buffers on a device.
func (c *Config) sharedRecvSizes(dev verbs.Device) (s sharedRecvSizes) {
	attr := dev.Attr()
	if c.Memory.SharedRecvBuffers < 0 || !dev.Caps().SRQ {
		return s
	}
	s.base, s.most = c.Memory.SharedRecvBuffers, c.Memory.SharedRecvBuffers
	if c.Memory.SharedRecvBuffers == 0 {
		s.most = min(max(defaultMostSharedRecv, c.MaxInFlight), attr.MaxSRQWR, attr.MaxCQE/2)
		s.base = min(max(defaultSharedRecv, c.MaxInFlight), s.most)
		if s.most < c.MaxInFlight {
			return sharedRecvSizes{}
		}
	}
	s.limit = s.most
	if c.Memory.MinRecvBuffers > 0 {
		guaranteed := int64(c.MaxConns)*int64(c.Memory.MinRecvBuffers) + sharedRecvBatch
		s.limit = int(min(max(int64(s.most), guaranteed), int64(attr.MaxSRQWR)))
	}
	return s
}

// need returns the number of buffers that the given number of connections needs. The
// parameter minimum is Config.Memory.MinRecvBuffers. If minimum is not 0, the result includes
// sharedRecvBatch additional buffers: when a peer has received the answer to a message
// and sends the next message, the buffer of the first message may still be in use by
// OnMessage, or staged and not posted yet.
func (s *sharedRecvSizes) need(conns, minimum int) int {
	n := min(max(s.base, conns*defaultRecvPerConn), s.most)
	if minimum == 0 {
		return n
	}
	guaranteed := int64(conns)*int64(minimum) + sharedRecvBatch
	return int(min(max(int64(n), guaranteed), math.MaxInt32))
}

// ownRecvBuffers returns the number of receive buffers of a connection that has a receive
// queue of its own. Up to half of them may be staged and not posted yet.
func (c *Config) ownRecvBuffers() int { return max(c.MaxInFlight, 2*c.Memory.MinRecvBuffers) }

// tooManyLoops returns the error of a Config with more loops than completion vectors.
func tooManyLoops(loops, vectors int) error {
	return &verbs.ParamError{
		Field: "NumLoops", Value: int64(loops), Limit: int64(vectors),
		Reason: fmt.Sprintf("each loop needs a completion vector of its own, and the device has %d", vectors),
	}
}
