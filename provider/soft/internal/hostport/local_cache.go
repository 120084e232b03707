//go:build linux

package hostport

import (
	"net/netip"
	"time"
)

// A LocalAddrCache stores whether addresses in requests belong to this host, because
// asking the kernel takes time. The zero value is empty.
type LocalAddrCache struct {
	// Time of the oldest entry, as the caller passed it to Contains.
	since time.Duration
	known map[netip.Addr]bool
}

const (
	// localAddrTTL is how long an entry is valid. It is arbitrary.
	localAddrTTL = time.Second
	// maxLocalAddrs is the largest number of entries. Peers may name many addresses of a
	// local prefix. Arbitrary.
	maxLocalAddrs = 64
)

// Contains reports whether an address belongs to this host. The present time may have
// any fixed origin. The errors are those of OnThisHost.
func (o *LocalAddrCache) Contains(a netip.Addr, now time.Duration) (bool, error) {
	if a.IsLoopback() {
		return true, nil
	}
	if o.known == nil || now-o.since >= localAddrTTL || len(o.known) >= maxLocalAddrs {
		o.since, o.known = now, make(map[netip.Addr]bool)
	}
	if is, ok := o.known[a]; ok {
		return is, nil
	}
	is, err := OnThisHost(a)
	if err == nil {
		o.known[a] = is
	}
	return is, err
}
