package main

import (
	"bytes"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An entry is a file or directory in an archive, or the end of the archive.
type entry struct {
	name string
	mode fs.FileMode
	data string
}

// readArchive returns the entries of a cpio archive in the format newc (cpio(5)).
func readArchive(t *testing.T, archive []byte) (entries []entry) {
	take := func(n int) string {
		require.LessOrEqual(t, n, len(archive))
		taken := string(archive[:n])
		archive = archive[n:]
		return taken
	}
	for at := 0; len(archive) > 0; {
		require.Equal(t, "070701", take(6))
		var header [13]int
		for i := range header {
			n, err := strconv.ParseUint(take(8), 16, 32)
			require.NoError(t, err)
			header[i] = int(n)
		}
		mode, size, nameSize := header[1], header[6], header[11]
		name := take(nameSize)
		at += 6 + 13*8 + nameSize
		require.Equal(t, strings.Repeat("\x00", -at&3), take(-at&3))
		at += -at & 3
		data := take(size)
		at += size
		take(-at & 3)
		at += -at & 3
		require.True(t, strings.HasSuffix(name, "\x00"))
		entries = append(entries, entry{strings.TrimSuffix(name, "\x00"), fs.FileMode(mode), data})
	}
	return entries
}

func TestArchive(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, tree{
		"init":         []byte("#!"),
		"usr/bin/ip":   []byte("12345"),
		"usr/lib/a.so": nil,
	}.writeTo(&out))
	require.Zero(t, out.Len()%4, "the size of an archive is a multiple of four")
	require.Equal(t, []entry{
		{"usr", typeDirectory | 0o755, ""},
		{"usr/bin", typeDirectory | 0o755, ""},
		{"usr/lib", typeDirectory | 0o755, ""},
		{"init", typeFile | 0o755, "#!"},
		{"usr/bin/ip", typeFile | 0o755, "12345"},
		{"usr/lib/a.so", typeFile | 0o755, ""},
		{"TRAILER!!!", 0, ""},
	}, readArchive(t, out.Bytes()))
}

type brokenWriter struct{ error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.error }

func TestArchiveReturnsWriteError(t *testing.T) {
	broken := brokenWriter{fs.ErrInvalid}
	require.ErrorIs(t, tree{"init": nil}.writeTo(broken), fs.ErrInvalid)
}
