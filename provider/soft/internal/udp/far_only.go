//go:build linux

package udp

import "golang.org/x/sys/unix"

// With soft.PathAuto, peers on this host must use the local path, because the kernel
// reports the user of a peer only on the local path. So the sockets drop packets of this
// host. Such packets arrive through the loopback interface.
//
// A packet of this host can also come back through a tunnel. So connection requests and
// UD packets from an address of this host are dropped too; see channel.acceptsFrom in
// package connmgr.

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
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff_ffff}, // passes the whole packet
}
