//go:build linux

package madcm

import "net/netip"

// A sourceCounts counts the connections that each source has requested, over all
// listeners; see access.SourceOf. The multiplexer's lock guards it.
type sourceCounts struct {
	limit int                        // largest number of open connections of one source
	conns map[netip.Addr]sourceConns // counts of the sources that have open connections
}

// sourceConns counts the connections of one source.
type sourceConns struct {
	open      int // number of connections that have not been released
	validated int // number of open connections whose peer has a validated address
}

func newSourceCounts(limit int) sourceCounts {
	return sourceCounts{limit: limit, conns: make(map[netip.Addr]sourceConns)}
}

// full reports whether a source has the largest allowed number of connections.
func (s *sourceCounts) full(source netip.Addr) bool { return s.conns[source].open >= s.limit }

// fullForGood reports whether a source has the largest allowed number of connections with
// validated addresses. Connections with validated addresses can not be evicted.
func (s *sourceCounts) fullForGood(source netip.Addr) bool {
	return s.conns[source].validated >= s.limit
}

// opened counts a new connection. The address of its peer is not validated.
func (s *sourceCounts) opened(source netip.Addr) { s.change(source, 1, 0) }

// validated counts an open connection as one whose peer has a validated address.
func (s *sourceCounts) validated(source netip.Addr) { s.change(source, 0, 1) }

// released removes a connection from the counts of its source. The parameter valid says
// whether the connection was counted as validated.
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
