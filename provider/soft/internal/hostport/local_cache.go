//go:build linux

package hostport

import (
	"net/netip"
	"time"
)

// A LocalAddrCache remembers the kernel's answers about addresses for a second. It knows
// whether an address belongs to this host, and from which address this host sends to
// another host. The zero value is empty. Only one goroutine at a time may use it.
type LocalAddrCache struct {
	// time at which the oldest entry was made, as the parameter now has given it
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

// Contains reports whether an address belongs to this host. The parameter now is the
// time since any fixed moment. The errors are those of OnThisHost.
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

// SourceFor returns the address from which the kernel would send to dst. For the
// parameter now see Contains. The errors are those of the function SourceFor.
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

// CheckOwn returns cm.ErrAddrNotAvailable if the address does not belong to this host.
// If the cache knows that the address belongs to this host, CheckOwn does not ask the
// kernel. For the parameter now see Contains.
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

// prepare empties the cache if it is too old or full.
func (o *LocalAddrCache) prepare(now time.Duration) {
	if o.known == nil || now-o.since >= localAddrTTL || max(len(o.known), len(o.sources)) >= maxLocalAddrs {
		o.since, o.known, o.sources = now, make(map[netip.Addr]bool), make(map[netip.Addr]netip.Addr)
	}
}
