package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// A datagramSocket is a non-blocking UDP socket on 127.0.0.1.
type datagramSocket struct {
	fd   int
	addr netip.AddrPort
}

func openSocket() (*datagramSocket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	addr, err := fromSockaddr(at)
	return &datagramSocket{fd, addr}, err
}

func fromSockaddr(at unix.Sockaddr) (netip.AddrPort, error) {
	in, ok := at.(*unix.SockaddrInet4)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("unexpected address type %T", at)
	}
	return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)), nil
}

// connect connects the socket to an address. Then it receives only from that address.
func (d *datagramSocket) connect(peer netip.AddrPort) error {
	at := &unix.SockaddrInet4{Addr: peer.Addr().As4(), Port: int(peer.Port())}
	return os.NewSyscallError("connect", unix.Connect(d.fd, at))
}

func (d *datagramSocket) send(message []byte) error {
	_, err := unix.Write(d.fd, message)
	return os.NewSyscallError("write", err)
}

// receive receives one datagram and returns its length, or 0 if there is none. It
// returns the sender only if wantSource is true.
func (d *datagramSocket) receive(message []byte, wantSource bool) (n int, from netip.AddrPort, err error) {
	if !wantSource {
		n, err = unix.Read(d.fd, message)
	} else {
		var at unix.Sockaddr
		if n, at, err = unix.Recvfrom(d.fd, message, 0); err == nil {
			from, err = fromSockaddr(at)
		}
	}
	if errors.Is(err, unix.EAGAIN) {
		return 0, from, nil
	}
	return n, from, os.NewSyscallError("receive", err)
}
