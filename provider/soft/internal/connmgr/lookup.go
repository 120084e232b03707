//go:build linux

package connmgr

import (
	"bytes"
	"cmp"

	"github.com/rdmaloop/rdmaloop/cm"
)

// acceptLookup accepts a SIDR request. It sends the queue pair number and the Q_Key to
// the active side.
func (i *ID) acceptLookup(param *cm.MessageParam) error {
	i.chooseQP(param)
	reply := &SIDRREP{QPN: i.qpn, QKey: cm.DefaultQKey, Private: bytes.Clone(param.PrivateData)}
	if i.ownQP() == nil {
		reply.QKey = cmp.Or(param.QKey, cm.DefaultQKey)
	}
	err := i.conn.Send(reply)
	i.enter(StateEnded)
	return err
}

// onSIDRREP handles the answer to a SIDR request. Even if the answer is a refusal,
// onSIDRREP does not change the local queue pair.
func (i *ID) onSIDRREP(m *SIDRREP) bool {
	if i.state != StateREQSent || i.ps != cm.UDP {
		return false
	}
	i.enter(StateEnded)
	if m.Status != cm.SIDROK {
		i.raise(cm.TransportEvent{Type: cm.Unreachable, Status: int(m.Status), Err: userRefused(m.UserRefused), ByApplication: m.ByApplication, PrivateData: m.Private})
		return true
	}
	// If route() fails, the address vector has the GID index 0.
	route, _ := i.route()
	to := cm.UDParam{AH: route, QPN: m.QPN, QKey: m.QKey}
	i.raise(cm.TransportEvent{Type: cm.Established, UD: to, PrivateData: m.Private})
	return true
}
