package gnetrdma

import (
	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// closePrivate makes the kernel drop all datagrams for the listener at privateAddr, because
// each user of the host can send to it. If that fails, gnet gets and discards them. See
// socket(7) for SO_ATTACH_FILTER.
func closePrivate(e gnet.Engine) {
	fd, err := e.Dup()
	if err != nil {
		return
	}
	none := unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &none)
	_ = unix.Close(fd)
}
