//go:build linux

package soft

import (
	"testing"

	"github.com/rdmaloop/rdmaloop/internal/testutil/peerproc"
)

// datagramPeers maps the names of roles to the functions of the peer processes.
var datagramPeers = map[string]peerproc.Role{
	"datagram-sink":      peerDatagramSink,
	"datagram-source":    peerDatagramSource,
	"datagram-senders":   peerDatagramSenders,
	"datagram-full":      peerDatagramNoDescriptors,
	"datagram-dest-full": peerDatagramDestNoDescriptors,
}

// TestDatagramPeer is the entry point of a peer process. In the test process it does
// nothing.
func TestDatagramPeer(t *testing.T) { peerproc.Main(t, datagramPeers) }
