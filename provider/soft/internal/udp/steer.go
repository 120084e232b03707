//go:build linux

package udp

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxMembers is the largest number of shards' sockets at one address. More sockets could
// need a BPF program with more than 4096 instructions (BPF_MAXINSNS).
const maxMembers = 1000

// steer returns the BPF program that selects a socket for each packet by the destination
// queue pair. The program makes a sendto(2) to this host 100 ns slower; see
// docs/performance.md.
//
// Socket 0 belongs to connection management, and members[i] is socket i+1. The program
// divides the queue pair number by modulus. The remainder is the slot of a shard, and
// the quotient selects one of the shard's sockets. Packets for a slot without a shard go
// to socket 0, which drops them.
//
// The program reads the UDP payload, which begins with the BTH. See bpf(4), and
// socket(7) for SO_ATTACH_REUSEPORT_CBPF.
func steer(members []member, modulus uint32) []unix.SockFilter {
	// Offset of the word of the BTH that has the queue pair number in its low 24 bits
	// (IBTA vol. 1, 9.2).
	const destQP = 4
	p := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: destQP},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: verbs.MaxQPNum},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: wire.GSIQPN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: modulus},
	}
	sockets := make(map[uint32][]uint32) // numbers of the sockets in each slot
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

// steerShard returns the instructions that select one of a shard's sockets. The queue
// pair number is in the register X.
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
