package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	rows := []Row{
		testRow("rdmaloop", "local", "busy", workPingPong, 64, 250, 4e6),
		testRow("gnet", "tcp", "event", workPingPong, 64, 25_000, 4e4),
		testRow("rdmaloop", "local", "busy", workStream, 64<<10, 0, 123456),
	}
	rows[0].CPU = 500
	var b strings.Builder
	require.NoError(t, printTable(&b, withRatios(rows)))
	table := strings.TrimSuffix(b.String(), tableNotes)
	require.Equal(t, `
pingpong, 64 B         p50 µs  p99 µs  p99.9 µs  max µs  msgs/s    B/s  CPU ns  allocs  switches  × gnet
  rdmaloop/local/busy    0.25    0.50      0.75     100   4.00M   256M     500    0.00      0.00   0.010
  gnet/tcp/event        25.00   50.00     75.00   10000   40.0k  2.56M                              1.00

stream, 64 KiB, 1 in flight  msgs/s    B/s
  rdmaloop/local/busy          123k  8.09G
`, table)
}

func TestTableOfNothing(t *testing.T) {
	var b strings.Builder
	require.NoError(t, printTable(&b, nil))
	require.Equal(t, "nothing was measured\n", b.String())
}

// failingWriter fails every write, as on a full disk.
type failingWriter struct{}

var errFull = errors.New("full")

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }

func TestTableNotWritten(t *testing.T) {
	require.ErrorIs(t, printTable(failingWriter{}, nil), errFull)
}

func TestNumbers(t *testing.T) {
	for n, text := range map[float64]string{
		0: "", 0.125: "0.12", 9.99: "9.99", 9.999: "10.0", 99.96: "100", 999.4: "999", 999.6: "1.00k",
		12345: "12.3k", 12.58e6: "12.6M", 17.9e9: "17.9G", 5e12: "5000G",
	} {
		require.Equal(t, text, formatSI(n), "%v", n)
	}
	require.Equal(t, "0.003", formatRatio(0.0033))
	require.Equal(t, "1.25", formatRatio(1.25))
	require.Equal(t, "71.1", formatRatio(71.06))
	require.Equal(t, "321", formatRatio(321.49))
	require.Equal(t, "99.99", formatMicros(99_990))
	require.Equal(t, "1000 B", bytesOf(1000))
	require.Equal(t, "64 KiB", bytesOf(64<<10))
}

func TestTitles(t *testing.T) {
	require.Equal(t, "conns-idle, 64 B, of 1000", Case{Workload: workConnsIdle, Size: 64, Connections: 1000}.title())
}
