//go:build linux

package connmgr

import (
	"bytes"
	"cmp"

	"github.com/rdmaloop/rdmaloop/cm"
)

// acceptLookup accepts a SIDR request. It sends the queue pair number and the Q_Key to
// the active side.
func (i *id) acceptLookup(param *cm.MessageParam) error {
	i.chooseQP(param)
	reply := &sidrRepMsg{qpn: i.qpn, qkey: cm.DefaultQKey, private: bytes.Clone(param.PrivateData)}
	if i.ownQP() == nil {
		reply.qkey = cmp.Or(param.QKey, cm.DefaultQKey)
	}
	err := i.conn.send(reply)
	i.enter(stateEnded)
	return err
}

// onSIDRREP handles the answer to a SIDR request. Even if the answer is a refusal,
// onSIDRREP does not change the local queue pair.
func (i *id) onSIDRREP(m *sidrRepMsg) bool {
	if i.state != stateREQSent || i.ps != cm.UDP {
		return false
	}
	i.enter(stateEnded)
	if m.status != cm.SIDROK {
		i.raise(cm.TransportEvent{Type: cm.Unreachable, Status: int(m.status), Err: userRefused(m.userRefused), ByApplication: m.byApplication, PrivateData: m.private})
		return true
	}
	// If route() fails, the address vector has the GID index 0.
	route, _ := i.route()
	to := cm.UDParam{AH: route, QPN: m.qpn, QKey: m.qkey}
	i.raise(cm.TransportEvent{Type: cm.Established, UD: to, PrivateData: m.private})
	return true
}
