//go:build linux

package soft

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
)

// boundAddrs returns the spots of a port that are bound in this network
// namespace, by whatever process.
func boundAddrs(ps cm.PortSpace, port uint16) ([]spot, error) {
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return scanBound(f, ps, port, nameIsBound)
}

// connectedState is SS_CONNECTED in the state column of /proc/net/unix.
const connectedState = "03"

// scanBound reads the table of /proc/net/unix:
//
//	Num RefCount Protocol Flags Type St Inode Path
//
// A connected socket shows the name that its listener had, which may be gone:
// isBound tells.
func scanBound(table io.Reader, ps cm.PortSpace, port uint16, isBound func(name string) bool) ([]spot, error) {
	var found []spot
	bound := make(map[spot]bool) // of connected sockets, which may be many of one name
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 8 {
			continue
		}
		s, ok := parseSpot(ps, fields[7])
		if !ok || s.port != port {
			continue
		}
		if fields[5] == connectedState {
			if _, known := bound[s]; known {
				continue
			}
			bound[s] = isBound(s.name())
			if !bound[s] {
				continue
			}
		}
		found = append(found, s)
	}
	return found, lines.Err()
}

// Who binds to any free port can not read the table each time, nor try to bind the
// names of wildcards: that would keep another from binding them meanwhile. So the
// holder of a wildcard holds a second name, that of a datagram socket, to which
// everybody can try to connect. Nothing is ever sent to it. Names of datagram
// sockets and of others are unrelated (unix(7)).

// bindMarker makes the marker of a spot.
func bindMarker(name string) (int, error) {
	fd, err := markerSocket()
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// anyMarker reports whether one of the spots is held.
func anyMarker(spots []spot) (bool, error) {
	fd, err := markerSocket()
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	for _, s := range spots {
		// Any other refusal shows that the name is there (connect(2)).
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: s.name()}); !errors.Is(err, unix.ECONNREFUSED) {
			return true, nil
		}
	}
	return false, nil
}

func markerSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}
