//go:build linux

package udp

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/hostport"
)

const (
	// socketBuffer is the size in bytes that is requested for the send buffer and the
	// receive buffer. The kernel allows at most net.core.wmem_max and rmem_max, by
	// default 208 KiB. Arbitrary.
	socketBuffer = 4 << 20
	// neverFragment is the value of IP_PMTUDISC_PROBE and IPV6_PMTUDISC_PROBE. With this
	// option the kernel fragments no packets. It writes the identification 0 into the
	// packets of an IPv4 socket that is not connected. IP_PMTUDISC_DO has the same
	// effects, but also looks up the path MTU of each packet. This lookup takes 70 ns,
	// and it is not needed: connection management negotiates the MTU.
	neverFragment = unix.IP_PMTUDISC_PROBE
)

// A socketOptions has the options of openSocket.
type socketOptions struct {
	// joining makes the socket share its address and port with open sockets of this
	// device.
	joining bool
	// farOnly makes the kernel drop packets of this host.
	farOnly bool
}

// openSocket opens a socket on one local address. The socket is not connected, because
// it has to receive from all peers.
func openSocket(local netip.AddrPort, o socketOptions) (int, error) {
	fd, err := hostport.UDPSocket(local.Addr())
	if err != nil {
		return -1, err
	}
	if err := prepareSocket(fd, local, o); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) {
			err = portTaken(local)
		}
		return -1, err
	}
	return fd, nil
}

// OpenSender opens a socket that only sends. Over IPv4 the identification of its packets
// is 0. The caller owns the descriptor.
func OpenSender(local netip.Addr) (int, error) {
	return openSocket(netip.AddrPortFrom(local, 0), socketOptions{})
}

// DropAll makes the kernel drop all datagrams to a socket.
func DropAll(fd int) error {
	return attachFilter(fd, unix.SO_ATTACH_FILTER, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}})
}

// prepareSocket sets the options of a socket, and binds it.
func prepareSocket(fd int, local netip.AddrPort, o socketOptions) error {
	discover, level, option := neverFragment, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER
	if local.Addr().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER
		// Soft-RoCE and network cards send the UDP checksum 0. Over IPv6 a socket must
		// allow that (RFC 6936).
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1); err != nil {
			return fmt.Errorf("UDP_NO_CHECK6_RX: %w", err)
		}
	}
	if err := unix.SetsockoptInt(fd, level, option, discover); err != nil {
		return fmt.Errorf("IP_MTU_DISCOVER: %w", err)
	}
	// Multicast packets of this socket must not reach other sockets of this host.
	loop := unix.IP_MULTICAST_LOOP
	if local.Addr().Is6() {
		loop = unix.IPV6_MULTICAST_LOOP
	}
	if err := unix.SetsockoptInt(fd, level, loop, 0); err != nil {
		return fmt.Errorf("IP_MULTICAST_LOOP: %w", err)
	}
	if err := setBuffers(fd); err != nil {
		return fmt.Errorf("socket buffer: %w", err)
	}
	if o.joining {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return fmt.Errorf("SO_REUSEPORT: %w", err)
		}
	}
	// The filter is attached before the socket is bound, so that it sees every packet.
	if o.farOnly {
		if err := attachFilter(fd, unix.SO_ATTACH_FILTER, passFar); err != nil {
			return fmt.Errorf("SO_ATTACH_FILTER: %w", err)
		}
	}
	return unix.Bind(fd, hostport.Sockaddr(local.Addr(), int(local.Port())))
}

// setBuffers requests socketBuffer bytes for both buffers of a socket; see socket(7).
func setBuffers(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer); err != nil {
		return err
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer) == nil {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer)
}

// portTaken returns the error for a port in use, with advice for the user.
func portTaken(local netip.AddrPort) error {
	return fmt.Errorf("%w: UDP %v belongs to another process, to another device of this process, or to the kernel's own RoCE (rdma_rxe). "+
		"One device speaks RoCE on an address: give this one another local address (on loopback, 127.0.0.2), "+
		"unload rdma_rxe or use a network namespace, or set soft.Config.WirePort on both ends", cm.ErrAddrInUse, local)
}
