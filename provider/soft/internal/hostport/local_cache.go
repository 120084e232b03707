//go:build linux

package hostport

import (
	"net/netip"
	"time"
)

// A LocalAddrCache stores for some addresses whether they belong to this host. The
// addresses come from the connection requests of peers. The cache exists because asking
// the kernel takes about as long as all other checks of a request together. The zero
// value is an empty cache.
type LocalAddrCache struct {
	// time at which the oldest entry was added, counted from the same origin as the
	// present time that callers pass to Contains
	since time.Duration
	known map[netip.Addr]bool
}

const (
	// localAddrTTL is how long an entry is valid. It is arbitrary.
	localAddrTTL = time.Second
	// maxLocalAddrs is the largest number of entries. It is arbitrary. A limit is
	// necessary because all addresses of a prefix may belong to this host, and a peer may
	// name all of them.
	maxLocalAddrs = 64
)

// Contains reports whether an address belongs to this host. Every loopback address does.
// The parameter now is the present time, counted from any origin that is the same in all
// calls. The errors are those of OnThisHost.
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
