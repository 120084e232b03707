package disk

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const size = 1 << 20

func open(t *testing.T, name string) *File {
	t.Helper()
	d, err := Open(name, size, false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func read(t *testing.T, d *File, offset int64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	require.NoError(t, d.ReadAt(b, offset))
	return b
}

func TestFileKeepsData(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "disk"))
	data := bytes.Repeat([]byte("data"), 1024)
	require.NoError(t, d.WriteAt(data, 8192))
	require.NoError(t, d.Flush())
	require.Equal(t, data, read(t, d, 8192, len(data)))
	require.Equal(t, int64(size), d.Size())
}

func TestZeroAndDiscardKeepTheRest(t *testing.T) {
	for name, clean := range map[string]func(*File, int64, int64) error{
		"zero": (*File).Zero, "discard": (*File).Discard, "written zeros": (*File).writeZeros,
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, filepath.Join(t.TempDir(), "disk"))
			full := bytes.Repeat([]byte{7}, 3*4096)
			require.NoError(t, d.WriteAt(full, 0))
			require.NoError(t, clean(d, 4096, 4096))
			require.Equal(t, full[:4096], read(t, d, 0, 4096))
			require.Equal(t, make([]byte, 4096), read(t, d, 4096, 4096))
			require.Equal(t, full[:4096], read(t, d, 8192, 4096))
		})
	}
}

func TestOpenRefusesASecondUser(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk")
	open(t, name)
	_, err := Open(name, size, false)
	require.ErrorIs(t, err, ErrInUse)
}

func TestOpenRefusesAnotherSize(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk")
	d, err := Open(name, size, false)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	_, err = Open(name, 2*size, false)
	require.ErrorContains(t, err, "instead of")
	_, err = Open(filepath.Join(t.TempDir(), "missing"), 0, false)
	require.Error(t, err)
}

// TestTry checks that data is written and read back with TryWriteAt and TryReadAt. If one
// of them returns false, the test calls WriteAt or ReadAt instead. The test runs as in a
// file system with a device, and as in one without.
func TestTry(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		d := open(t, filepath.Join(t.TempDir(), "disk"))
		d.inMemory = inMemory
		data := bytes.Repeat([]byte("try!"), 1024)
		done, err := d.TryWriteAt(data, 4096)
		require.NoError(t, err)
		if !done {
			require.NoError(t, d.WriteAt(data, 4096))
		}
		back := make([]byte, len(data))
		if done, err = d.TryReadAt(back, 4096); !done {
			err = d.ReadAt(back, 4096)
		}
		require.NoError(t, err)
		require.Equal(t, data, back)
	}
}

func TestReadAfterTruncationFails(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "disk"))
	require.NoError(t, d.file.Truncate(0))
	require.Error(t, d.ReadAt(make([]byte, 4096), 0))
}

func TestReadOnly(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk")
	first, err := Open(name, size, false)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	d, err := Open(name, 0, true)
	require.NoError(t, err)
	require.Error(t, d.WriteAt(make([]byte, 512), 0))
	second, err := Open(name, 0, true)
	require.NoError(t, err, "several processes can read")
	require.NoError(t, errors.Join(d.Close(), second.Close()))
}
