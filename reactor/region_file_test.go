package reactor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// TestMapFile checks that a peer WRITEs to a file and READs from it. When the file
// becomes shorter, a READ of the missing bytes ends the connection, and not the process.
func TestMapFile(t *testing.T) {
	completed := 0
	p := connect(t, &hooks{completion: func(_ *reactor.Conn, _ reactor.Op, err error) {
		if err == nil {
			completed++
		}
	}}, &hooks{}, nil)
	path := filepath.Join(t.TempDir(), "data")
	page := os.Getpagesize()
	require.NoError(t, os.WriteFile(path, make([]byte, 3*page), 0o600))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	offset, length := int64(page+100), 2*page-100
	mapped, err := p.server.Engine().MapFile(int(file.Fd()), offset, length, verbs.AccessAll)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Len(t, mapped.Bytes(), length)

	local := alloc(t, p.dialed, 64, verbs.AccessLocalWrite)
	copy(local.Bytes(), "written")
	to := remoteOf(t, p.accepted, mapped)
	require.NoError(t, p.dialed.Write(to, nil, reactor.Piece{Region: local, Length: 7}))
	require.NoError(t, p.dialed.Read(to, nil, reactor.Piece{Region: local, Offset: 32, Length: 7}))
	p.drive(t, func() bool { return completed == 2 })
	require.Equal(t, "written", string(local.Bytes()[32:39]))
	stored, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "written", string(stored[offset:offset+7]))

	require.NoError(t, os.Truncate(path, int64(2*page)))
	require.NoError(t, p.dialed.Read(to, nil, reactor.Piece{Region: local, Length: 7}))
	p.drive(t, func() bool { return completed == 3 })
	to.Addr += uint64(page)
	require.NoError(t, p.dialed.Read(to, nil, reactor.Piece{Region: local, Length: 7}))
	p.closed(t)
	require.Equal(t, verbs.StatusRemOpErr, status(t, p.dialCloseErr))
	require.Error(t, p.acceptCloseErr)
}

// TestMapFileErrors checks the errors for files and ranges that can not be mapped.
func TestMapFileErrors(t *testing.T) {
	e := start(t, &hooks{}, nil)
	path := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(path, []byte("read only"), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var param *verbs.ParamError
	fd := int(file.Fd())
	_, err = e.MapFile(fd, -1, 9, verbs.AccessRemoteRead)
	require.ErrorAs(t, err, &param)
	_, err = e.MapFile(fd, 0, 0, verbs.AccessRemoteRead)
	require.ErrorAs(t, err, &param)
	_, err = e.MapFile(fd, 0, 9, verbs.AccessLocalWrite)
	require.ErrorIs(t, err, os.ErrPermission)
	_, err = e.MapFile(-1, 0, 9, verbs.AccessRemoteRead)
	require.ErrorContains(t, err, "rdma: map file: ")
	r, err := e.MapFile(fd, 0, 9, verbs.AccessRemoteRead)
	require.NoError(t, err)
	require.Equal(t, "read only", string(r.Bytes()))
	require.NoError(t, r.Close())
}
