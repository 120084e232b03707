//go:build linux

package soft

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// A gidTable has the addresses of the host. The index of an address is its GID index.
// Look-ups seldom read the addresses from the system again, because this is slow.
type gidTable struct {
	addrs func() ([]netip.Addr, error) // returns the addresses of the host
	inUse func() []netip.Addr          // returns the local addresses of the wire path's sockets

	mu   sync.Mutex
	gids []verbs.GID
}

// all reads the addresses again, and returns a copy of the table. The table also has the
// addresses of 127.0.0.0/8 at which the device has a socket.
func (t *gidTable) all() ([]verbs.GID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.refresh()
	return slices.Clone(t.gids), err
}

// index returns the GID index of an address, or 0 if the table does not have it.
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

// at returns the address with a GID index.
func (t *gidTable) at(index int) (netip.Addr, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index >= len(t.gids) {
		if err := t.refresh(); err != nil {
			return netip.Addr{}, err
		}
	}
	if err := operr.CheckRange("source GID index", index, 0, len(t.gids)-1); err != nil {
		return netip.Addr{}, err
	}
	return t.gids[index].Addr(), nil
}

// refresh reads the addresses of the host. The caller holds mu.
func (t *gidTable) refresh() error {
	addrs, err := t.addrs()
	if err != nil {
		return err
	}
	t.gids = t.gids[:0]
	for _, a := range addrs {
		t.gids = append(t.gids, verbs.GIDFromAddr(a))
	}
	for _, a := range t.inUse() {
		if gid := verbs.GIDFromAddr(a); !slices.Contains(t.gids, gid) {
			t.gids = append(t.gids, gid)
		}
	}
	return nil
}
