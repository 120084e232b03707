//go:build linux

package soft

import (
	"golang.org/x/sys/unix"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// maxMembers bounds the sockets of one address, and so the length of the
// program that chooses among them: the system takes 4096 instructions
// (BPF_MAXINSNS), and there are two for each socket.
const maxMembers = 2000

// steer is the program that chooses the socket of an address for a packet by its
// destination queue pair: 0 is that of connection management, and slots[i] is
// served by socket i+1. Queue pair numbers say which slot they are of by their
// remainder. What fits nobody goes to socket 0, which drops it.
//
// The program sees the UDP payload, so the BTH is at offset 0; see bpf(4) for
// the language, and socket(7) for where it runs.
func steer(slots []uint32, modulus uint32) []unix.SockFilter {
	const destQP = 4 // the word of the BTH whose low 24 bits they are
	p := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: destQP},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: max24},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: wire.GSIQPN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: modulus},
	}
	for i, slot := range slots {
		p = append(p,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: slot, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(i + 1)})
	}
	return append(p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0})
}
