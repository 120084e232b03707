package gnetrdma

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/panjf2000/gnet/v2"
)

// A privateAddr is an address at which gnet listens if the program has only addresses of
// RDMA. A gnet.Engine needs a listener, or its methods return an error. The handler of
// the program gets no callbacks for the private address.
//
// The address is a Unix socket in a directory that only this user may search. It can not
// be an abstract Unix socket, because gnet removes the character @ from addresses. If
// the Unix socket can not be made, the address is a port for UDP of 127.0.0.1 that the
// system chooses. Other users of the host can send to it, and gnet discards what they
// send. UDP has no connections, so they can not use up descriptors.
type privateAddr struct {
	network string // "unix" or "udp"
	addr    string // path of the Unix socket, or IP address and port
	dir     string // directory of the Unix socket; empty for UDP
	noUnix  error  // reason why there is no Unix socket, or nil
}

// newPrivateAddr chooses a private address. The caller calls remove when gnet has
// stopped.
func newPrivateAddr() *privateAddr {
	a, err := newUnixAddr()
	if err != nil {
		return &privateAddr{network: "udp", addr: "127.0.0.1:0", noUnix: err}
	}
	return a
}

// newUnixAddr makes a directory, and returns the address of a Unix socket in it.
func newUnixAddr() (*privateAddr, error) {
	dir, err := os.MkdirTemp("", "gnetrdma") // Only this user may search it.
	if err != nil {
		return nil, err
	}
	a := &privateAddr{network: "unix", dir: dir}
	if dir, err = filepath.Abs(dir); err == nil {
		a.dir, a.addr = dir, filepath.Join(dir, "socket")
		err = checkSocketPath(a.addr)
	}
	if err != nil {
		a.remove()
		return nil, err
	}
	return a, nil
}

// checkSocketPath returns an error if gnet can not listen at a path: gnet would
// understand another path, the path is too long, or the file system has no sockets.
func checkSocketPath(path string) error {
	u, err := url.Parse("unix://" + strings.ReplaceAll(path, "%", "%25")) // as gnet does
	if err != nil {
		return err
	}
	if u.Path != path {
		// gnet removes the file or directory at the path that it understands.
		return fmt.Errorf("gnet takes the path %q for %q", path, u.Path)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	return ln.Close() // removes the socket
}

// String returns the address in the form that gnet.Rotate expects.
func (a *privateAddr) String() string { return a.network + "://" + a.addr }

// has reports whether c belongs to the private address. A nil a has no connections.
func (a *privateAddr) has(c gnet.Conn) bool {
	return a != nil && c.LocalAddr().Network() == a.network && c.LocalAddr().String() == a.addr
}

// explain adds the purpose of the address to an error of gnet.Rotate. If the error is
// nil, it returns nil.
func (a *privateAddr) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("gnetrdma: gnet needs a listener besides those of RDMA, and fails at %v: %w", a, errors.Join(err, a.noUnix))
}

// remove removes the directory of the Unix socket.
func (a *privateAddr) remove() {
	if a.dir != "" {
		_ = os.RemoveAll(a.dir) // The system removes it some time if this fails.
	}
}
