//go:build linux

package soft

import "golang.org/x/sys/unix"

// With PathAuto, peers on this host take the local path, where the kernel says which
// user they belong to. A process of another user could evade that check by sending
// packets to the UDP port of an address of this host: a packet does not name its
// sender, and a process can send with any local address as the source, over IPv6 even
// with any address (IPV6_FREEBIND in linux/in6.h).
//
// But the kernel delivers every unicast packet that it sends to itself on the loopback
// interface, whatever its source and destination are. So the sockets of such a device
// drop all packets that arrive on that interface. Packets of containers and virtual
// machines arrive on other interfaces: the device treats those as other hosts. The
// exception is a VRF, whose packets to itself arrive on the interface of the VRF.

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
