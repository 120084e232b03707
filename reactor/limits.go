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
	// A CQ needs entries for MaxInFlight sends, one probe and MaxInFlight receives. With
	// a shared receive queue, a CQ needs entries for MaxInFlight sends, one probe and
	// SharedRecvBuffers receives.
	inFlight := min(attr.MaxQPWR-1, (attr.MaxCQE-1)/2)
	if c.SharedRecvBuffers > 0 {
		if err := c.checkSharedRecv(attr, caps); err != nil {
			return operr.Wrap(op, err)
		}
		inFlight = min(attr.MaxQPWR-1, attr.MaxCQE-1-c.SharedRecvBuffers)
	}
	return operr.Wrap(op, checkRange("MaxInFlight", c.MaxInFlight, 1, inFlight))
}

// checkSharedRecv checks the size of the shared receive queue.
func (c *Config) checkSharedRecv(attr verbs.DeviceAttr, caps verbs.Caps) error {
	if !caps.SRQ {
		return &verbs.ParamError{Field: "SharedRecvBuffers", Value: int64(c.SharedRecvBuffers), Reason: "the device has no shared receive queues"}
	}
	return checkRange("SharedRecvBuffers", c.SharedRecvBuffers, 1, min(attr.MaxSRQWR, attr.MaxCQE))
}

// tooManyLoops returns the error of a Config with more loops than completion vectors.
func tooManyLoops(loops, vectors int) error {
	return &verbs.ParamError{
		Field: "NumLoops", Value: int64(loops), Limit: int64(vectors),
		Reason: fmt.Sprintf("each loop needs a completion vector of its own, and the device has %d; soft.Config.Vectors sets the number", vectors),
	}
}
