package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPeerNamed(t *testing.T) {
	for _, p := range ownPeers() {
		found, err := peerNamed(p.name)
		require.NoError(t, err)
		require.Equal(t, p.name, found.Name())
	}
	_, err := peerNamed("nobody")
	require.ErrorContains(t, err, "nobody")
}

// TestCases checks that a peer has all workloads that it can run, and no case twice.
func TestCases(t *testing.T) {
	for name, workloads := range map[string]int{"rdmaloop": 11, "gnet": 8, "stdlib": 7, "cacheline": 1, "memcpy": 1, "rawudp": 1} {
		p, err := peerNamed(name)
		require.NoError(t, err)
		if needsTwoProcessors(p) {
			workloads = 0
		}
		seen, kinds := map[Case]bool{}, map[string]bool{}
		for _, c := range p.Cases(parsed(t, "-quick")) {
			require.False(t, seen[c], "%v twice", c)
			require.Equal(t, name, c.Peer)
			seen[c], kinds[c.Workload] = true, true
		}
		require.Len(t, kinds, workloads, name)
	}
}

// TestMissing checks that the error of the only peer that can be missing says why.
func TestMissing(t *testing.T) {
	for _, p := range ownPeers() {
		if err := p.Missing(); err != nil {
			require.Equal(t, "rdmacore", p.Name())
			require.ErrorContains(t, err, "no access to RDMA hardware")
		}
	}
}

func TestWarmUp(t *testing.T) {
	c := Case{Workload: workConnsIdle, Connections: 1000, For: 200 * time.Millisecond}
	require.Equal(t, 50*time.Millisecond, c.warmUp())
	c.Workload = workConnsActive
	require.Equal(t, 21*50*time.Millisecond, c.warmUp())
	c.For = time.Hour
	require.Equal(t, 21*100*time.Millisecond, c.warmUp())
}
