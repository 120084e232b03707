//go:build linux

package unixsock

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// If a socket has bound the name, user() returns the user of this socket. Otherwise it
// returns the user of the connected sockets, if all of them have the same user.
func TestDiagSearch(t *testing.T) {
	for _, c := range []struct {
		name      string
		holder    []uint32
		connected []uint32
		uid       uint32
		known     bool
	}{
		{"nothing", nil, nil, 0, false},
		{"a holder", []uint32{7}, nil, 7, true},
		{"a holder among the connected", []uint32{7}, []uint32{8, 9}, 7, true},
		{"one that is connected", nil, []uint32{8}, 8, true},
		{"connected ones of one user", nil, []uint32{8, 8}, 8, true},
		{"connected ones of two users", nil, []uint32{8, 9}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			uid, known := (&diagSearch{holder: c.holder, connected: c.connected}).user()
			require.Equal(t, c.known, known)
			require.Equal(t, c.uid, uid)
		})
	}
}

func FuzzDiagAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add(diagRequest())
	f.Add(append(diagRequest(), make([]byte, 64)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = (&diagSearch{name: "x"}).addAll(b)
	})
}

func TestUserOfName(t *testing.T) {
	name := fmt.Sprintf("@rdmaloop/test/user/%d", os.Getpid())
	_, err := Listener(name)
	require.ErrorIs(t, err, unix.ECONNREFUSED)

	fd, err := Bind(name)
	require.NoError(t, err)
	defer unix.Close(fd)
	uid, known := User(name, unix.SOCK_SEQPACKET)
	require.True(t, known)
	require.EqualValues(t, os.Geteuid(), uid)
	_, known = User(name, unix.SOCK_DGRAM)
	require.False(t, known)

	require.NoError(t, unix.Listen(fd, 1))
	peer, err := Listener(name)
	require.NoError(t, err)
	require.EqualValues(t, os.Geteuid(), peer.UID)
	require.EqualValues(t, os.Getpid(), peer.PID)
}
