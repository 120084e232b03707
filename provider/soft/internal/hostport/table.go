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

// boundAddrs returns the bound addresses of the host with the given port.
func (h *Host) boundAddrs(ps cm.PortSpace, port uint16) ([]BindAddr, error) {
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return h.scanBound(f, ps, port, unixsock.IsBound)
}

// connectedState is SS_CONNECTED in the state column of /proc/net/unix.
const connectedState = "03"

// scanBound reads the table in /proc/net/unix, which has these columns:
//
//	Num RefCount Protocol Flags Type St Inode Path
//
// The table lists a connected socket with the name of its listener, even after the
// listener was closed. So scanBound asks isBound whether the name of a connected socket
// is still bound.
func (h *Host) scanBound(table io.Reader, ps cm.PortSpace, port uint16, isBound func(name string) (bool, error)) ([]BindAddr, error) {
	var found []BindAddr
	// bound remembers the results of isBound, because many sockets may have the same
	// name.
	bound := make(map[BindAddr]bool)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 8 {
			continue
		}
		s, ok := h.ParseBindAddr(ps, fields[7])
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

// A marker shows that a wildcard is bound. It is a datagram socket with the name of that
// wildcard. If a process can connect to the marker, the wildcard is bound.
//
// The search for a free port uses markers, because it would take too long to read the
// table of all sockets for each port.

// bindMarker binds a new marker to a name. It returns the descriptor of the marker.
func bindMarker(name string) (int, error) { return unixsock.BindType(unix.SOCK_DGRAM, name) }

// findMarker returns the first of the addresses that has a marker. It returns false if
// none has one.
func findMarker(addrs [2]BindAddr) (marked BindAddr, found bool, err error) {
	fd, err := unixsock.NewType(unix.SOCK_DGRAM)
	if err != nil {
		return BindAddr{}, false, err
	}
	defer unix.Close(fd)
	for _, s := range addrs {
		// Only ECONNREFUSED means that no socket has the name.
		if err := unixsock.Connect(fd, s.Name()); !errors.Is(err, unix.ECONNREFUSED) {
			return s, true, nil
		}
	}
	return BindAddr{}, false, nil
}
