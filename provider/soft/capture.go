//go:build linux

package soft

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/limitlog"
	"github.com/rdmaloop/rdmaloop/internal/psn"
	"github.com/rdmaloop/rdmaloop/internal/simhost"
	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/capture"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/connmgr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/madcm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixcm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// errSimulated is the error for a capture in virtual time: its goroutine would disturb the
// order of events.
var errSimulated = errors.New("not on a simulated host")

// openCapture makes the file of a capture, or returns nil if cfg is nil.
func openCapture(h simhost.Host, cfg *Capture, log *limitlog.Logger) (*capture.Capture, error) {
	switch {
	case cfg == nil:
		return nil, nil
	case h != nil:
		return nil, &verbs.FeatureError{Feature: "capture", Reason: errSimulated}
	}
	// With O_EXCL, open(2) follows no symbolic link, and the file belongs to this process.
	file, err := os.OpenFile(cfg.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w, and a capture overwrites nothing", err)
		}
		return nil, fmt.Errorf("capture: %w", err)
	}
	c, err := beginCapture(file, cfg, log)
	if err != nil {
		_, _ = file.Close(), os.Remove(cfg.File)
		return nil, fmt.Errorf("capture: %w", err)
	}
	return c, nil
}

// beginCapture begins a capture in an empty file.
func beginCapture(file capture.File, cfg *Capture, log *limitlog.Logger) (*capture.Capture, error) {
	return capture.New(file, capture.Config{
		SnapLen: cfg.SnapLen, Buffer: cfg.Buffer,
		OnDrop: func() {
			log.Warn("soft: packets are missing in the capture (soft.Capture.Buffer)", "file", cfg.File, "counter", counters.CaptureDropped.String())
		},
		OnError: func(err error) {
			log.Error("soft: the capture has ended, because its file can not be written", "file", cfg.File, "error", err)
		},
	})
}

// record makes the capture record the connection of a queue pair on the local path. The
// parameter attr has the attributes for RTR.
func (d *device) record(q *qp.QP, attr *verbs.QPAttr) *capture.RC {
	remote := attr.AH.DestGID.Addr()
	local, err := d.gids.at(attr.AH.SourceIndex)
	if err != nil || local.Is4() != remote.Is4() {
		local = remote // both are addresses of this host
	}
	ends := &capture.Ends{Local: local, Remote: remote, OwnQP: q.Num(), PeerQP: attr.DestQPN}
	return q.Shard.Tap.NewRC(ends, attr.PathMTU.Bytes(), attr.RQPSN)
}

// A cmRecorder passes the messages of connection management on the local path to the capture,
// as the MADs that they would have been.
type cmRecorder struct {
	tap  *capture.Tap
	attr verbs.DeviceAttr
}

// observe implements unixcm.Config.Observe. Communication IDs are the numbers of the queue
// pairs, and the request ID of a lookup is the port that has sent it.
func (r *cmRecorder) observe(x *unixcm.Exchange, m connmgr.Message, sent bool) {
	src, dst := x.Src, x.Dst
	e := madcm.Ends{Own: x.ActiveQPN, Peer: x.PassiveQPN, Rejected: wire.AnsweredOther}
	if x.PassiveQPN != 0 {
		e.Rejected = wire.AnsweredREP
	}
	e.TID = uint64(x.ActiveQPN)
	if sent != x.Active { // the sender has received the request
		src, dst = dst, src
		e.Own, e.Peer = e.Peer, e.Own
		if x.PassiveQPN == 0 {
			e.Rejected = wire.AnsweredREQ
		}
	}
	e.PeerQPN = e.Peer
	switch message := m.(type) {
	case *connmgr.REQ:
		req := *message
		req.MTU = connmgr.LargestMTU
		m = &req
	case *connmgr.SIDRREQ:
		e.Own = uint32(x.Src.Port())
	case *connmgr.SIDRREP:
		e.Peer, e.Service = uint32(x.Src.Port()), wire.NewServiceID(uint16(cm.UDP), x.Dst.Port())
	case *connmgr.DREP:
		e.TID = uint64(e.Peer)
	}
	var mad wire.MAD
	madcm.Encode(&mad, m, &e, &r.attr)
	var b [madcm.PacketSize]byte
	direction := capture.Inbound
	if sent {
		direction = capture.Outbound
	}
	h := &capture.Header{From: netip.AddrPortFrom(src.Addr(), wire.UDPPort), To: netip.AddrPortFrom(dst.Addr(), wire.UDPPort)}
	r.tap.LocalPacket(direction, h, madcm.Packet(b[:], &mad, psn.Value(0)))
}
