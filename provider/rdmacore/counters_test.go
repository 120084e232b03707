//go:build cgo && linux

package rdmacore_test

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
	"github.com/rdmaloop/rdmaloop/verbs"
)

func TestReadCounters(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sent_pkts":         "12\n",
		"duplicate_request": "18446744073709551615\n",
		"ack_deferred":      "0\n",
		"lifespan":          "10\n",
		"status":            "fine\n",
		"delta":             "-1\n",
		"nothing":           "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	got, err := rdmacore.ReadCounters(dir)
	require.NoError(t, err)
	require.Equal(t, []verbs.Counter{
		{Name: "ack_deferred", Value: 0},
		{Name: "duplicate_request", Help: "request packets that were executed before", Value: math.MaxUint64},
		{Name: "sent_pkts", Help: "packets passed to the system", Value: 12},
	}, got)

	_, err = rdmacore.ReadCounters(filepath.Join(dir, "no driver has made it"))
	require.ErrorIs(t, err, verbs.ErrNotSupported)
	require.ErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "can not be read"), 0o700))
	_, err = rdmacore.ReadCounters(dir)
	require.Error(t, err)
	_, err = rdmacore.ReadCounters(filepath.Join(dir, "status"))
	require.Error(t, err)
}

// rxe has counters of sent and received packets.
func TestCountersOfRXE(t *testing.T) {
	dev := newRig(t).dev
	if dev.Attr().Vendor != "0xffffff" {
		t.Skip("the device is not rxe")
	}
	list, err := dev.Counters(1)
	require.NoError(t, err)
	var names []string
	for _, c := range list {
		names = append(names, c.Name)
	}
	require.Subset(t, names, []string{"duplicate_request", "rcvd_pkts", "sent_pkts"})
}
