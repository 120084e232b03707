//go:build linux

package hostport

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/unixsock"
)

// boundAddrs returns the addresses with a port that any process has bound in this network
// namespace.
func boundAddrs(ps cm.PortSpace, port uint16) ([]BindAddr, error) {
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return scanBound(f, ps, port, unixsock.IsBound)
}

// connectedState is SS_CONNECTED in the state column of /proc/net/unix.
const connectedState = "03"

// scanBound reads the table of /proc/net/unix:
//
//	Num RefCount Protocol Flags Type St Inode Path
//
// A connected socket has the name of its listener, which may be closed by now;
// isBound reports whether the name is bound.
func scanBound(table io.Reader, ps cm.PortSpace, port uint16, isBound func(name string) (bool, error)) ([]BindAddr, error) {
	var found []BindAddr
	// results of isBound for names of connected sockets, because many sockets may have
	// the same name
	bound := make(map[BindAddr]bool)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 8 {
			continue
		}
		s, ok := ParseBindAddr(ps, fields[7])
		if !ok || s.Port != port {
			continue
		}
		if fields[5] == connectedState {
			if _, known := bound[s]; known {
				continue
			}
			is, err := isBound(s.Name())
			if err != nil {
				return nil, err
			}
			bound[s] = is
			if !is {
				continue
			}
		}
		found = append(found, s)
	}
	return found, lines.Err()
}

// A marker is a datagram socket that the holder of a wildcard binds in addition, with
// the same name. Other processes detect the marker by trying to connect to it; nothing
// is ever sent to it. The search for a free port needs markers for two reasons. Reading
// the table of all sockets for each port takes too long. And the search must not bind
// the names of wildcards, because another process might want to bind them at the same
// time. Names of datagram sockets and of other sockets are unrelated (unix(7)).

// bindMarker makes a marker with a name.
func bindMarker(name string) (int, error) { return unixsock.BindType(unix.SOCK_DGRAM, name) }

// anyMarker reports whether the marker of one of the addresses is bound.
func anyMarker(addrs []BindAddr) (bool, error) {
	fd, err := unixsock.NewType(unix.SOCK_DGRAM)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	for _, s := range addrs {
		// Any other error means that the name is bound (connect(2)).
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: s.Name()}); !errors.Is(err, unix.ECONNREFUSED) {
			return true, nil
		}
	}
	return false, nil
}
