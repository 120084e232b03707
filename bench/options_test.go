package main

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func parsed(t *testing.T, args ...string) options {
	o, err := parse(args, nil)
	require.NoError(t, err)
	return o
}

func TestDefaults(t *testing.T) {
	o := parsed(t)
	require.Equal(t, 3, o.rounds)
	require.Equal(t, 500*time.Millisecond, o.duration)
	require.True(t, o.wants(workRead))
	require.True(t, o.wantsPeer("gnet"))
	require.True(t, o.wantsCase(Case{Peer: "gnet", Path: "tcp", Mode: "event", Workload: workStream}))

	o = parsed(t, "-quick", "-rounds", "2")
	require.Equal(t, 2, o.rounds)
	require.Less(t, o.duration, 500*time.Millisecond)
}

func TestChoices(t *testing.T) {
	o := parsed(t, "-peers", "rdmaloop/local,gnet", "-workloads", "pingpong,read", "-sizes", "8,4096")
	require.True(t, o.wantsPeer("rdmaloop"))
	require.False(t, o.wantsPeer("stdlib"))
	busy := Case{Peer: "rdmaloop", Path: "local", Mode: "busy", Workload: workRead}
	require.True(t, o.wantsCase(busy))
	busy.Path = "wire"
	require.False(t, o.wantsCase(busy))
	require.False(t, o.wantsCase(Case{Peer: "gnet2", Path: "tcp", Mode: "event", Workload: workRead}))
	require.False(t, o.wantsCase(Case{Peer: "gnet", Path: "tcp", Mode: "event", Workload: workIdle}))
	require.Equal(t, []int{8, 4096}, o.sizesOr(64))
	require.True(t, parsed(t, "-peers", "rdmaloop/local/busy").wantsPeer("rdmaloop"))
}

func TestRefusedOptions(t *testing.T) {
	for _, args := range []string{
		"extra", "-rounds -1", "-duration -1s", "-sizes 7", "-sizes x", "-sizes 1048577", "-workloads dance", "-nosuch",
	} {
		_, err := parse(strings.Fields(args), nil)
		require.Error(t, err, args)
	}
	var help strings.Builder
	_, err := parse([]string{"-h"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, help.String(), "-workloads")
}

// TestQuick checks that a quick run has all workloads, and at most half of the cases.
func TestQuick(t *testing.T) {
	quick, whole := 0, 0
	for _, workload := range workloads() {
		few := casesOf(workload, parsed(t, "-quick"))
		all := casesOf(workload, parsed(t))
		require.NotEmpty(t, few)
		require.LessOrEqual(t, len(few), len(all))
		quick, whole = quick+len(few), whole+len(all)
	}
	require.LessOrEqual(t, 2*quick, whole)
}
