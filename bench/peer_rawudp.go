package main

import (
	"fmt"
	"net/netip"
	"sync/atomic"
)

// rawUDPPeer returns a peer that gives a lower bound for the wire path. It polls UDP
// sockets, without a library.
func rawUDPPeer() *peer {
	// Largest payload of a UDP datagram in an IPv4 packet (RFC 768).
	const largest = 65507
	return &peer{
		name:     "rawudp",
		variants: []variant{{"udp", "busy"}},
		fits:     func(c Case) bool { return c.Workload == workPingPong && c.Size <= largest },
		serve:    serveDatagrams,
		connect:  connectDatagrams,
	}
}

// A datagramServer returns every datagram to its sender.
type datagramServer struct {
	socket   *datagramSocket
	stop     atomic.Bool
	finished chan error
}

func serveDatagrams(s *spec) (server, error) {
	socket, err := openSocket()
	if err != nil {
		return nil, err
	}
	d := &datagramServer{socket: socket, finished: make(chan error, 1)}
	go func() { d.finished <- d.serve(make([]byte, s.Size)) }()
	return d, nil
}

// Addr returns the address of the socket.
func (d *datagramServer) Addr() string { return d.socket.addr.String() }

// Close ends the goroutine that answers datagrams, and returns its error.
func (d *datagramServer) Close() error {
	d.stop.Store(true)
	return <-d.finished
}

func (d *datagramServer) serve(message []byte) error {
	known := false
	for !d.stop.Load() {
		n, from, err := d.socket.receive(message, !known)
		if err != nil {
			return err
		}
		if n == 0 {
			continue // No datagram was waiting.
		}
		if !known {
			if err := d.socket.connect(from); err != nil {
				return err
			}
			known = true
		}
		if err := d.socket.send(message[:n]); err != nil {
			return err
		}
	}
	return nil
}

func connectDatagrams(s *spec) (client, error) {
	at, err := netip.ParseAddrPort(s.Server)
	if err != nil {
		return nil, err
	}
	b := newBlockingClient(s)
	b.connect = func() (caller, error) {
		socket, err := openSocket()
		if err != nil {
			return nil, err
		}
		return &datagramCaller{socket, make([]byte, s.Size)}, socket.connect(at)
	}
	return b, nil
}

// A datagramCaller implements caller on a UDP socket.
type datagramCaller struct {
	*datagramSocket
	message []byte
}

func (d *datagramCaller) roundTrip(n uint64) error {
	putNumber(d.message, n)
	if err := d.send(d.message); err != nil {
		return err
	}
	for {
		got, _, err := d.receive(d.message, false)
		switch {
		case err != nil:
			return err
		case got == 0:
		case got != len(d.message):
			return fmt.Errorf("the server returned %d bytes of %d", got, len(d.message))
		default:
			return checkNumber(d.message, n)
		}
	}
}
