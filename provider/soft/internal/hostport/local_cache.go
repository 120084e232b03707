//go:build linux

package hostport

import (
	"net/netip"
	"time"
)

// A LocalAddrCache stores whether addresses belong to this host, and from which address
// this host sends to other addresses, because asking the kernel takes time. The zero
// value is empty.
type LocalAddrCache struct {
	// Time of the oldest entry, as the caller passed it.
	since   time.Duration
	known   map[netip.Addr]bool
	sources map[netip.Addr]netip.Addr // results of SourceFor, by destination
}

const (
	// localAddrTTL is how long an entry is valid. It is arbitrary.
	localAddrTTL = time.Second
	// maxLocalAddrs is the largest number of entries of each kind. Peers may name many
	// addresses of a local prefix. Arbitrary.
	maxLocalAddrs = 64
)

// Contains reports whether an address belongs to this host. The present time may have
// any fixed origin. The errors are those of OnThisHost.
func (o *LocalAddrCache) Contains(a netip.Addr, now time.Duration) (bool, error) {
	if a.IsLoopback() {
		return true, nil
	}
	o.prepare(now)
	if is, ok := o.known[a]; ok {
		return is, nil
	}
	is, err := OnThisHost(a)
	if err == nil {
		o.known[a] = is
	}
	return is, err
}

// SourceFor returns the address from which the kernel would send to dst. The parameter
// now and the errors are those of Contains and SourceFor.
func (o *LocalAddrCache) SourceFor(dst netip.Addr, now time.Duration) (netip.Addr, error) {
	o.prepare(now)
	if src, ok := o.sources[dst]; ok {
		return src, nil
	}
	src, err := SourceFor(dst)
	if err == nil {
		o.sources[dst] = src
	}
	return src, err
}

// CheckOwn returns cm.ErrAddrNotAvailable if the address is not an address of this host.
// It asks the kernel unless an entry says that the address belongs to this host. The
// parameter now is that of Contains.
func (o *LocalAddrCache) CheckOwn(a netip.Addr, now time.Duration) error {
	a = a.Unmap()
	o.prepare(now)
	if o.known[a] {
		return nil
	}
	err := CheckOwn(a)
	if err == nil {
		o.known[a] = true
	}
	return err
}

// prepare makes the cache empty if it has no maps, is too old, or is full.
func (o *LocalAddrCache) prepare(now time.Duration) {
	if o.known == nil || now-o.since >= localAddrTTL || max(len(o.known), len(o.sources)) >= maxLocalAddrs {
		o.since, o.known, o.sources = now, make(map[netip.Addr]bool), make(map[netip.Addr]netip.Addr)
	}
}
