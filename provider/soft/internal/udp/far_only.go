//go:build linux

package udp

import "golang.org/x/sys/unix"

// With soft.PathAuto, peers on this host take the local path, where the kernel says which
// user they belong to. A process of another user could evade that check by sending
// packets to the UDP port of an address of this host: a packet does not name its
// sender, and a process can send with any local address as the source, over IPv6 even
// with any address (IPV6_FREEBIND in linux/in6.h).
//
// The kernel delivers a unicast packet that it routes to itself on the loopback
// interface, whatever its source and destination are. So the sockets of such a device
// drop all packets that arrive on that interface.
//
// A packet that has left the host and has come back arrives on another interface. A
// process can send such packets if a tunnel, a bridge or address translation brings them
// back, if two interfaces are on the same network (SO_BINDTODEVICE), or in a VRF.
// Requests and UD packets among them are dropped if they name an address of this host as
// their source, because answers to it stay on the host; see channel.acceptsFrom in
// package soft. The
// others are like packets of other hosts, and so are those of containers and virtual
// machines.

// loopbackInterface is the index of the loopback interface in each network namespace
// (LOOPBACK_IFINDEX in linux/net/core).
const loopbackInterface = 1

// interfaceOf is the offset at which a classic BPF program reads the index of the
// interface on which a packet has arrived (SKF_AD_OFF + SKF_AD_IFINDEX in
// linux/filter.h).
const interfaceOf = 0xffff_f000 + 8

// passFar is a BPF program that drops the packets that this host has sent to itself, and
// passes all others.
var passFar = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: interfaceOf},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: loopbackInterface, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff_ffff}, // the whole packet
}
