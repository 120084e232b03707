//go:build linux

package udp

import "golang.org/x/sys/unix"

// With soft.PathAuto, peers on this host use the local path. There the kernel reports the
// user of a peer, and the device refuses users that are not allowed. Such a user could
// send UDP packets instead: from any address of this host, and over IPv6 from any address
// at all (IPV6_FREEBIND in linux/in6.h).
//
// The kernel routes packets within this host through the loopback interface. So with
// PathAuto the sockets drop all packets from that interface.
//
// A packet of this host can also leave it and come back on another interface, for
// example through a tunnel or address translation. If such a packet is a connection
// request or a UD packet, and its source is an address of this host, it is dropped; see
// channel.acceptsFrom in package connmgr.

// loopbackInterface is the index of the loopback interface in every network namespace
// (LOOPBACK_IFINDEX in linux/net/core).
const loopbackInterface = 1

// interfaceOf is the offset at which a BPF program reads the receiving interface
// (SKF_AD_OFF + SKF_AD_IFINDEX in linux/filter.h).
const interfaceOf = 0xffff_f000 + 8

// passFar is a BPF program that drops packets from the loopback interface.
var passFar = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: interfaceOf},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: loopbackInterface, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff_ffff}, // The kernel keeps all bytes of the packet.
}
