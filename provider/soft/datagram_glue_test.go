//go:build linux

package soft

import "maps"

// The split of this package deletes this file. The tests of package udpath then have a
// TestPeer of their own.
func init() { maps.Copy(peers, datagramPeers) }
