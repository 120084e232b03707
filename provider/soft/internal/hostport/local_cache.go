//go:build linux

package hostport

import (
	"net/netip"
	"time"
)

// LocalAddrCache caches whether addresses that peers have named belong to this host.
// Asking the system takes about as long as the rest of the check of a request. The zero
// value is empty.
type LocalAddrCache struct {
	since time.Duration // time of the oldest entry
	known map[netip.Addr]bool
}

const (
	// localAddrTTL is how long an entry is valid. The number is arbitrary.
	localAddrTTL = time.Second
	// maxLocalAddrs bounds the memory that peers can make the cache use, because all
	// addresses of a prefix can be local to a host. The number is arbitrary.
	maxLocalAddrs = 64
)

// Contains reports whether an address belongs to this host. Loopback addresses always do.
// now is the present time, counted from any origin. The error is that of OnThisHost.
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
