package stream

import "net/netip"

// An Addr is the address of a listener or of one end of a Conn.
type Addr struct{ netip.AddrPort }

// Network returns "rdma".
func (Addr) Network() string { return "rdma" }
