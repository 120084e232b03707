package gnetsuite

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/stream"
)

// network is the Network of the peers. It lasts as long as the test process.
var network = sync.OnceValues(func() (*stream.Network, error) {
	device, err := soft.Open(nil)
	if err != nil {
		return nil, err
	}
	return stream.New(device, nil)
})

// isRDMA reports whether a rewritten test means RDMA with the network.
func isRDMA(name string) bool { return strings.HasPrefix(name, "rdma") }

// Dial replaces net.Dial.
func Dial(name, address string) (net.Conn, error) {
	if !isRDMA(name) {
		return net.Dial(name, address)
	}
	n, err := network()
	if err != nil {
		return nil, err
	}
	return n.Dial(name, address)
}

// Listen replaces net.Listen.
func Listen(name, address string) (net.Listener, error) {
	if !isRDMA(name) {
		return net.Listen(name, address)
	}
	n, err := network()
	if err != nil {
		return nil, err
	}
	return n.Listen(name, address)
}

// ResolveAddr replaces net.ResolveTCPAddr.
func ResolveAddr(_, address string) (net.Addr, error) { return net.ResolveTCPAddr("tcp", address) }

// ParseProtoAddr replaces an internal function of gnet. It separates the network of an
// address from the rest.
func ParseProtoAddr(address string) (name, rest string, err error) {
	name, rest, _ = strings.Cut(address, "://")
	return name, rest, nil
}

// SysClose replaces an internal function of gnet.
func SysClose(fd int) error { return unix.Close(fd) }

// DupListener replaces Engine.DupListener. For an address of RDMA it checks that gnet
// does not know the listener, and returns a descriptor of another file.
func DupListener(e gnet.Engine, name, address string) (int, error) {
	fd, err := e.DupListener(name, address)
	_, _, notAddress := net.SplitHostPort(address)
	if !isRDMA(name) || notAddress != nil || !errors.Is(err, gneterrors.ErrInvalidNetworkAddress) {
		return fd, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return -1, err
	}
	defer null.Close()
	return unix.Dup(int(null.Fd()))
}
