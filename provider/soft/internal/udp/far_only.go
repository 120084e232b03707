//go:build linux

package udp

import "golang.org/x/sys/unix"

// With soft.PathAuto, peers on this host use the local path, where the kernel reports
// their user. A process of another user could evade that check by sending packets to the
// UDP port of an address of this host. A packet does not say which process sent it, and
// its source address proves nothing: a process can send from any address of this host,
// and over IPv6 from any address at all (IPV6_FREEBIND in linux/in6.h).
//
// The kernel routes a unicast packet from this host to this host through the loopback
// interface, whatever the source and the destination are. The sockets of a device with
// PathAuto therefore drop all packets that arrive on the loopback interface.
//
// A packet of this host can also leave it, come back, and then arrive on another
// interface. This is possible if a tunnel, a bridge or address translation returns the
// packet, if two interfaces are on the same network (SO_BINDTODEVICE), or in a VRF. Such
// a packet is dropped if it is a connection request or a UD packet and names an address
// of this host as its source, because answers would go to this host; see
// channel.acceptsFrom in package connmgr. Other such packets are treated as packets of
// other hosts. So are packets of containers and virtual machines.

// loopbackInterface is the index of the loopback interface. The index is the same in
// every network namespace (LOOPBACK_IFINDEX in linux/net/core).
const loopbackInterface = 1

// interfaceOf is the offset at which a classic BPF program reads the index of the
// interface on which a packet arrived (SKF_AD_OFF + SKF_AD_IFINDEX in linux/filter.h).
const interfaceOf = 0xffff_f000 + 8

// passFar is a BPF program that drops the packets from the loopback interface and keeps
// all others.
var passFar = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: interfaceOf},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: loopbackInterface, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff_ffff}, // The kernel keeps all bytes of the packet.
}
