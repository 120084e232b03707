package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plotTexts writes the plots of the rows. It returns the texts of each plot by file
// name.
func plotTexts(t *testing.T, rows []Row) map[string]string {
	dir := filepath.Join(t.TempDir(), "new", "plots")
	require.NoError(t, writePlots(dir, rows))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	texts := map[string]string{}
	for _, entry := range entries {
		file, err := os.Open(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		texts[entry.Name()] = textOf(t, file)
		require.NoError(t, file.Close())
	}
	return texts
}

// textOf returns the text between the tags of an XML document.
func textOf(t *testing.T, r io.Reader) string {
	var b strings.Builder
	for d := xml.NewDecoder(r); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			b.Write(text)
		}
	}
}

func TestPlots(t *testing.T) {
	rows := []Row{
		testRow("rdmaloop", "local", "busy", workPingPong, 64, 250, 4e6),
		testRow("gnet", "tcp", "event", workPingPong, 64, 25_000, 4e4),
		testRow("gnet", "tcp", "event", workPingPong, 4096, 30_000, 3e4),
		testRow("rdmaloop", "local", "busy", workStream, 64, 0, 9e5),
		testRow("rdmaloop", "local", "busy", workStream, 64, 0, 9e6),
		testRow("ucx", "posix", "busy", workStream, 64, 0, 12e6),
		testRow("gnet", "tcp", "event", workIdle, 64, 25_000, 100),
	}
	rows[4].InFlight, rows[5].InFlight = 256, 256
	texts := plotTexts(t, rows)
	require.Len(t, texts, 3)
	for _, part := range []string{"64 B", "rdmaloop/local/busy", "gnet/tcp/event", "p50", "p99.9", "µs", "0.1", "100"} {
		require.Contains(t, texts["latency-64.svg"], part)
	}
	require.Contains(t, texts["latency-4096.svg"], "4 KiB")
	for _, part := range []string{"rdmaloop/local/busy", "ucx/posix/busy", "256", "100M", "messages in flight"} {
		require.Contains(t, texts["rate-64.svg"], part)
	}
}

// TestDistinctCurves checks that no two curves of the plot of rates have the same color
// and shape, whichever peers are measured.
func TestDistinctCurves(t *testing.T) {
	var rows []Row
	for _, p := range ownPeers() {
		for _, v := range p.variants {
			rows = append(rows, testRow(p.name, v.path, v.mode, workStream, 64, 0, 1e6))
		}
	}
	for _, path := range []string{"posix", ucxTagPath, "tcp"} {
		rows = append(rows, testRow("ucx", path, "busy", workStream, 64, 0, 1e6))
	}
	// Peers that do not run workStream need no style.
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Peer == "cacheline" || r.Peer == "rawudp" })
	seen := map[style]string{}
	for _, c := range curvesOf(rows) {
		require.Empty(t, seen[c.style], c.name)
		seen[c.style] = c.name
	}
	require.Len(t, seen, len(rows))
}

// TestPlotText checks that the texts of a plot are outlines.
func TestPlotText(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writePlots(dir, []Row{testRow("gnet", "tcp", "event", workPingPong, 64, 25_000, 4e4)}))
	svg, err := os.ReadFile(filepath.Join(dir, "latency-64.svg"))
	require.NoError(t, err)
	require.NotContains(t, string(svg), "<text")
	require.Contains(t, string(svg), "<desc>")
}

// TestPlotsOfNothing checks that rows are left out if a logarithmic scale can not show
// them, and that no empty plots are written.
func TestPlotsOfNothing(t *testing.T) {
	require.Empty(t, plotTexts(t, nil))
	bad := testRow("gnet", "tcp", "event", workPingPong, 64, 0, 0)
	worse := testRow("gnet", "tcp", "event", workStream, 64, math.NaN(), math.NaN())
	worst := testRow("gnet", "tcp", "event", workPingPong, 8, math.Inf(1), math.Inf(1))
	require.Empty(t, plotTexts(t, []Row{bad, worse, worst}))
}

// TestPlotsOfOne checks that a plot with one row, or with equal values, can be drawn.
func TestPlotsOfOne(t *testing.T) {
	row := testRow("cacheline", "memory", "busy", workPingPong, 8, 1000, 1e6)
	row.P99, row.P999 = row.P50, row.P50
	require.Contains(t, plotTexts(t, []Row{row})["latency-8.svg"], "cacheline")
	require.Contains(t, plotTexts(t, []Row{testRow("cacheline", "memory", "busy", workStream, 8, 0, 1e6)})["rate-8.svg"], "1M")
}

func TestPlainNumbers(t *testing.T) {
	for n, text := range map[float64]string{0.01: "0.01", 1: "1", 100: "100", 1e4: "10k", 1e6: "1M", 1e10: "10G"} {
		require.Equal(t, text, plainNumber(n))
	}
}
