package reactor

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// checkDevices checks the configuration against the limits of every device, for New.
// Later devices are checked at their first use.
func (c *Config) checkDevices(p cm.Provider) error {
	devices, err := p.Devices()
	if err != nil {
		return err
	}
	for _, dev := range devices {
		if err := c.checkDevice(dev); err != nil {
			return err
		}
	}
	return nil
}

// checkDevice checks the configuration against the limits of one device.
func (c *Config) checkDevice(dev verbs.Device) error {
	op := "use " + dev.Name()
	attr, caps := dev.Attr(), dev.Caps()
	if caps.ProgressManual && c.NumLoops > attr.NumCompVectors {
		return operr.Wrap(op, tooManyLoops(c.NumLoops, attr.NumCompVectors))
	}
	// A CQ needs entries for MaxInFlight sends, one probe, and the receives.
	shared, _ := c.sharedRecvBuffers(dev)
	if shared > 0 {
		if err := c.checkSharedRecv(attr); err != nil {
			return operr.Wrap(op, err)
		}
		return operr.Wrap(op, checkRange("MaxInFlight", c.MaxInFlight, 1, min(attr.MaxQPWR-1, attr.MaxCQE-1-shared)))
	}
	if err := checkRange("MaxInFlight", c.MaxInFlight, 1, min(attr.MaxQPWR-1, (attr.MaxCQE-1)/2)); err != nil {
		return operr.Wrap(op, err)
	}
	return operr.Wrap(op, c.checkMinRecv(min(attr.MaxQPWR, attr.MaxCQE-1-c.MaxInFlight)/2))
}

// checkSharedRecv checks the size of the shared receive queue. It must have room for the
// buffers of at least one connection.
func (c *Config) checkSharedRecv(attr verbs.DeviceAttr) error {
	most := min(attr.MaxSRQWR, attr.MaxCQE)
	if err := checkRange("SharedRecvBuffers", c.SharedRecvBuffers, 0, most); err != nil {
		return err
	}
	return c.checkMinRecv(min(attr.MaxSRQWR, attr.MaxCQE-1-c.MaxInFlight) - sharedRecvBatch)
}

// checkMinRecv checks MinRecvBuffers. The parameter limit is how many buffers the device
// can have for the only connection of a loop.
func (c *Config) checkMinRecv(limit int) error {
	if c.MinRecvBuffers == 0 {
		return nil
	}
	return checkRange("MinRecvBuffers", c.MinRecvBuffers, 1, limit)
}

// defaultSharedRecv is the number of shared receive buffers if Config.SharedRecvBuffers
// is zero and the device has no lower limit.
const defaultSharedRecv = 1024

// sharedRecvBuffers returns the smallest and the largest number of receive buffers that
// the connections of a loop share on a device. Both are 0 if each connection has a
// receive queue of its own.
func (c *Config) sharedRecvBuffers(dev verbs.Device) (base, limit int) {
	attr := dev.Attr()
	if c.SharedRecvBuffers < 0 || !dev.Caps().SRQ {
		return 0, 0
	}
	base = c.SharedRecvBuffers
	if base == 0 {
		base = min(max(defaultSharedRecv, c.MaxInFlight), attr.MaxSRQWR, attr.MaxCQE/2)
		if base < c.MaxInFlight {
			return 0, 0
		}
	}
	if c.MinRecvBuffers == 0 {
		return base, base
	}
	most := int64(c.MaxConns)*int64(c.MinRecvBuffers) + sharedRecvBatch
	return base, int(min(max(int64(base), most), int64(attr.MaxSRQWR)))
}

// ownRecvBuffers returns the number of receive buffers of a connection that has a receive
// queue of its own. Up to half of them may be staged and not posted yet.
func (c *Config) ownRecvBuffers() int { return max(c.MaxInFlight, 2*c.MinRecvBuffers) }

// tooManyLoops returns the error of a Config with more loops than completion vectors.
func tooManyLoops(loops, vectors int) error {
	return &verbs.ParamError{
		Field: "NumLoops", Value: int64(loops), Limit: int64(vectors),
		Reason: fmt.Sprintf("each loop needs a completion vector of its own, and the device has %d; soft.Config.Vectors sets the number", vectors),
	}
}
