//go:build linux

package udp

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// maxMembers bounds the sockets of one address, and so the length of the BPF program
// that selects one of them: the system accepts 4096 instructions (BPF_MAXINSNS), and
// each socket needs two and each shard five.
const maxMembers = 1000

// steer returns the BPF program that selects the socket of an address for a packet by
// the destination queue pair. So the kernel passes each packet to the shard that owns
// the queue pair, and shards share no socket. The program adds 100 ns to a sendto to a
// socket of this host; see bench/README.md.
//
// Socket 0 is that of connection management, and members[i] is socket i+1. The remainder
// of the queue pair number gives the slot of the shard. If the shard has several sockets,
// the quotient selects one of them, so that all packets of a queue pair reach the same
// socket. A packet for no shard goes to socket 0, which drops it.
//
// The program sees the UDP payload, so the BTH is at offset 0; see bpf(4) for the
// language, and socket(7) for where it runs.
func steer(members []member, modulus uint32) []unix.SockFilter {
	const (
		destQP  = 4         // offset of the 32-bit word of the BTH with the queue pair number
		qpnMask = 1<<24 - 1 // the number is in the low 24 bits (IBTA vol. 1, 9.2)
	)
	p := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: destQP},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: qpnMask},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: wire.GSIQPN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: modulus},
	}
	sockets := make(map[uint32][]uint32) // socket numbers by slot
	var slots []uint32
	for i, m := range members {
		if sockets[m.slot] == nil {
			slots = append(slots, m.slot)
		}
		sockets[m.slot] = append(sockets[m.slot], uint32(i+1))
	}
	for _, slot := range slots {
		choice := steerShard(sockets[slot], modulus)
		p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: slot, Jf: uint8(len(choice))})
		p = append(p, choice...)
	}
	return append(p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0})
}

// steerShard returns the part of the program for the sockets of one shard, at most
// maxReceiveSockets. The queue pair number is in X.
func steerShard(sockets []uint32, modulus uint32) (p []unix.SockFilter) {
	last := len(sockets) - 1
	if last > 0 {
		p = append(p,
			unix.SockFilter{Code: unix.BPF_MISC | unix.BPF_TXA},
			unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_DIV | unix.BPF_K, K: modulus},
			unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(len(sockets))})
	}
	for i, socket := range sockets[:last] {
		p = append(p,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(i), Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: socket})
	}
	return append(p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: sockets[last]})
}
