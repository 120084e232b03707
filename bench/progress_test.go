package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgressLines checks the output without a terminal.
func TestProgressLines(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b, 3)
	p.begin(Case{Workload: workPingPong, Size: 8})
	p.begin(Case{Workload: workPingPong, Size: 64})
	p.failed(Case{Peer: "gnet", Workload: workPingPong}, errors.New("no luck"))
	p.begin(Case{Workload: workStream})
	p.finish()
	lines := strings.Split(b.String(), "\n")
	require.Len(t, lines, 4)
	require.Equal(t, "1/3 pingpong", lines[0])
	require.Contains(t, lines[1], "no luck")
	require.Equal(t, "3/3 stream", lines[2])
}

func TestProgressBar(t *testing.T) {
	var b strings.Builder
	p := &progress{w: &b, bar: newBar(&b, 2), steps: 2}
	c := Case{Peer: "gnet", Path: "tcp", Mode: "event", Workload: workPingPong, Size: 64}
	p.begin(c)
	p.failed(c, errors.New("no luck"))
	p.begin(c)
	p.finish()
	require.Contains(t, b.String(), "gnet/tcp/event pingpong, 64 B")
	require.Contains(t, b.String(), "no luck")
}
