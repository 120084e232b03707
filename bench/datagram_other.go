//go:build !linux

package main

import (
	"errors"
	"net/netip"
)

var errNoSocket = errors.New("polling a socket needs Linux")

// A datagramSocket works on Linux only.
type datagramSocket struct{ addr netip.AddrPort }

func openSocket() (*datagramSocket, error) { return nil, errNoSocket }

func (*datagramSocket) connect(netip.AddrPort) error { return errNoSocket }

func (*datagramSocket) send([]byte) error { return errNoSocket }

func (*datagramSocket) receive([]byte, bool) (int, netip.AddrPort, error) {
	return 0, netip.AddrPort{}, errNoSocket
}
