//go:build linux

package soft

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A gidTable numbers the addresses of the host. It is as old as the last question
// for all of them: asking the system for each connection would be a good part of
// what it takes to make one. Only an address that it does not have is asked for anew.
type gidTable struct {
	udp *udpPorts

	mu   sync.Mutex
	gids []verbs.GID
}

// all is the table as it is now: the addresses of the host, and those of
// 127.0.0.0/8 that are in use. It is the caller's.
func (t *gidTable) all() ([]verbs.GID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.refresh()
	return slices.Clone(t.gids), err
}

// index is the place of an address, or 0 when it has none: most of 127.0.0.0/8 is
// not listed, and the first stands in.
func (t *gidTable) index(of netip.Addr) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gid := verbs.GIDFromAddr(of)
	if i := slices.Index(t.gids, gid); i >= 0 {
		return i, nil
	}
	err := t.refresh()
	return max(0, slices.Index(t.gids, gid)), err
}

// at is the address in a place.
func (t *gidTable) at(index int) (netip.Addr, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index >= len(t.gids) {
		if err := t.refresh(); err != nil {
			return netip.Addr{}, err
		}
	}
	if index < 0 || index >= len(t.gids) {
		return netip.Addr{}, &verbs.ParamError{Field: "source GID index", Value: int64(index), Limit: int64(len(t.gids) - 1), Reason: "out of range"}
	}
	return t.gids[index].Addr(), nil
}

// ask is for the holder of the lock.
func (t *gidTable) refresh() error {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	t.gids = t.gids[:0]
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			t.gids = append(t.gids, verbs.GIDFromAddr(prefix.Addr()))
		}
	}
	for _, a := range t.udp.addrs() {
		if gid := verbs.GIDFromAddr(a); !slices.Contains(t.gids, gid) {
			t.gids = append(t.gids, gid)
		}
	}
	return nil
}
