//go:build linux

package connmgr

import "net/netip"

// A sourceCounts counts the connections that each source has requested, at all listeners
// together. See access.SourceOf. The multiplexer's lock guards it.
type sourceCounts struct {
	limit int                        // largest number of open connections of one source
	conns map[netip.Addr]sourceConns // counts of the sources that have open connections
}

// sourceConns has the counts of one source.
type sourceConns struct {
	open      int // number of connections that were not released
	validated int // number of open connections whose peer has a validated address
}

func newSourceCounts(limit int) sourceCounts {
	return sourceCounts{limit: limit, conns: make(map[netip.Addr]sourceConns)}
}

// full reports whether a source has the largest allowed number of open connections.
func (s *sourceCounts) full(source netip.Addr) bool { return s.conns[source].open >= s.limit }

// fullForGood reports whether a source has the largest allowed number of connections,
// all with a validated address. None of these connections can be evicted.
func (s *sourceCounts) fullForGood(source netip.Addr) bool {
	return s.conns[source].validated >= s.limit
}

// opened counts a new connection, whose peer's address is not validated.
func (s *sourceCounts) opened(source netip.Addr) { s.change(source, 1, 0) }

// validated records that the address of the peer of an open connection is validated.
func (s *sourceCounts) validated(source netip.Addr) { s.change(source, 0, 1) }

// released subtracts a connection from the counts of a source. The parameter valid is
// true if the connection was counted as validated.
func (s *sourceCounts) released(source netip.Addr, valid bool) {
	if valid {
		s.change(source, -1, -1)
	} else {
		s.change(source, -1, 0)
	}
}

func (s *sourceCounts) change(source netip.Addr, open, validated int) {
	n := s.conns[source]
	n.open += open
	n.validated += validated
	if s.conns[source] = n; n.open == 0 {
		delete(s.conns, source)
	}
}
