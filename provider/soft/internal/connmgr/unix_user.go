//go:build linux

package connmgr

import (
	"os"

	"github.com/rdmaloop/rdmaloop/cm"
)

// userRefusal returns the message that refuses a process of a user who is not allowed.
func (l *unixListener) userRefusal() message {
	if l.id.ps == cm.UDP {
		return &sidrRepMsg{status: cm.SIDRReject, user: true}
	}
	return &rejMsg{reason: cm.RejectConsumer, user: true}
}

// userRefused returns the error of a refusal. It is nil unless the peer has refused the
// user of this process.
func userRefused(yes bool) error {
	if !yes {
		return nil
	}
	return &cm.UserError{UID: uint32(os.Geteuid())}
}
