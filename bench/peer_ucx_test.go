package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func ucxCase(workload string) Case {
	c := Case{Peer: "ucx", Path: "posix", Mode: "busy", Workload: workload, Size: 64, InFlight: 1, Connections: 1, For: time.Millisecond}
	if workload == workStream {
		c.InFlight = 32
	}
	return c
}

func TestUCXMissing(t *testing.T) {
	u := newUCX()
	u.program = filepath.Join(t.TempDir(), "ucx_perftest")
	require.ErrorContains(t, u.Missing(), "apt-get install ucx-utils")
	_, err := u.Run(context.Background(), ucxCase(workStream))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestUCXRow(t *testing.T) {
	const half = 150 * time.Nanosecond
	r := &ucxRun{
		figures:  []ucxFigure{{half, 4e6}, {2 * half, 4e6}, {half, 4e6}},
		sent:     1000,
		cpu:      time.Millisecond,
		switches: 10,
	}
	row := r.row(ucxCase(workPingPong))
	require.Equal(t, Row{
		Case: ucxCase(workPingPong), P50: 300, P99: 600, P999: 600,
		MsgsPerSec: 2e6, BytesPerSec: 128e6, CPU: 1000, CtxSwitches: 0.01,
	}, row)

	row = r.row(ucxCase(workStream))
	require.InDelta(t, 4e6, row.MsgsPerSec, 1)
	require.Zero(t, row.P50)
}

func TestUCXCases(t *testing.T) {
	if client, _ := processors(); client < 0 {
		require.Empty(t, newUCX().Cases(options{}))
		return
	}
	cases := newUCX().Cases(options{peers: []string{"ucx/tcp"}, sizes: []int{8}})
	var inFlight []int
	for _, c := range cases {
		require.Equal(t, "tcp", c.Path)
		inFlight = append(inFlight, c.InFlight)
	}
	require.Equal(t, []int{1, 32, 256}, inFlight, "one ping-pong and two streams")
	var oneSided []string
	for _, c := range newUCX().Cases(options{sizes: []int{64}, workloads: []string{workRead, workWrite}}) {
		oneSided = append(oneSided, c.Path+" "+c.Workload)
	}
	require.Equal(t, []string{"posix read", "posix write"}, oneSided)
}

// TestUCXOneSided checks the times of READs and WRITEs.
func TestUCXOneSided(t *testing.T) {
	r := &ucxRun{figures: []ucxFigure{{100, 8e6}, {200, 8e6}, {300, 8e6}}, sent: 1000}
	for workload, want := range map[string]struct {
		test string
		ways float64
	}{workRead: {"-t ucp_get ", 1}, workWrite: {"-t ucp_put_lat ", 2}} {
		c := ucxCase(workload)
		row := r.row(c)
		require.InDelta(t, want.ways*100, row.P50, 1e-9)
		require.InDelta(t, want.ways*300, row.P999, 1e-9)
		require.InEpsilon(t, 8e6/want.ways, row.MsgsPerSec, 1e-9)
		require.Contains(t, ucxBatch{c, 1}.tests()[2], want.test)
	}
}

// ucxScript returns a ucx that runs a shell script instead of ucx_perftest.
func ucxScript(t *testing.T, text string) *ucx {
	u := newUCX()
	u.program = filepath.Join(t.TempDir(), "ucx_perftest")
	require.NoError(t, os.WriteFile(u.program, []byte("#!/bin/sh\n"+text), 0o755))
	return u
}

// isClient is a shell command that succeeds only in the client, whose last argument is
// an address.
const isClient = `for last; do :; done; [ "$last" = 127.0.0.1 ]`

func TestUCXRuns(t *testing.T) {
	u := ucxScript(t, `cat >/dev/null
if `+isClient+`; then echo 'x,50.0_percentile_lat,overall_mr'; echo 'p50,0.1,1000000'; fi`)
	row, err := u.Run(context.Background(), ucxCase(workStream))
	require.NoError(t, err)
	require.InDelta(t, 1e6, row.MsgsPerSec, 1)
	_, err = u.Run(context.Background(), ucxCase(workPingPong))
	require.ErrorContains(t, err, "1 results of 3")
}

// TestUCXRetries checks that the client tries again if the server does not listen yet.
func TestUCXRetries(t *testing.T) {
	tried := filepath.Join(t.TempDir(), "tried")
	u := ucxScript(t, isClient+` || exit 0
if [ -e `+tried+` ]; then echo 'x,50.0_percentile_lat,overall_mr'; echo 'p50,0.1,1000000'; exit 0; fi
: >`+tried+`; echo 'connect() failed: Connection refused'; exit 255`)
	_, err := u.Run(context.Background(), ucxCase(workStream))
	require.NoError(t, err)
}

func TestUCXFails(t *testing.T) {
	for name, script := range map[string]string{
		"client": isClient + ` && { echo no such transport; exit 1; }; exec cat`,
		"server": isClient + ` || exit 1; echo 'x,50.0_percentile_lat,overall_mr'; echo 'p50,0.1,1000000'`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ucxScript(t, script).Run(context.Background(), ucxCase(workStream))
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit), "%v", err)
		})
	}
}

// TestUCXTests checks which tests of ucx_perftest and which UCX transport measure a
// case.
func TestUCXTests(t *testing.T) {
	for path, want := range map[string][3]string{
		"posix":    {"posix", "-t ucp_am_lat ", "-t ucp_am_bw "},
		ucxTagPath: {"posix", "-t tag_lat ", "-t tag_bw "},
		"tcp":      {"tcp", "-t ucp_am_lat ", "-t ucp_am_bw "},
	} {
		require.Equal(t, want[0], ucxTransport(path))
		for i, workload := range []string{workPingPong, workStream} {
			c := ucxCase(workload)
			c.Path = path
			for _, line := range (ucxBatch{c, 1000}).tests() {
				require.Contains(t, line, want[1+i])
			}
		}
	}
}

// TestUCXItself checks that an installed ucx_perftest gives plausible rows.
func TestUCXItself(t *testing.T) {
	u := newUCX()
	u.minMessages = 100
	if err := u.Missing(); err != nil {
		t.Skip(err)
	}
	cases := u.Cases(options{quick: true, duration: 1})
	if testing.Short() {
		cases = cases[:1]
	}
	for _, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			row, err := u.Run(context.Background(), c)
			require.NoError(t, err)
			require.Positive(t, row.MsgsPerSec)
			require.Positive(t, row.CPU)
			require.LessOrEqual(t, row.P50, row.P99)
			require.LessOrEqual(t, row.P99, row.P999)
		})
	}
}
