//go:build linux

package soft

import "golang.org/x/sys/unix"

// askKernel sends a netlink request whose answer is one message, and returns the
// answer. See netlink(7).
func askKernel(protocol int, request []byte) (answer []byte, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	// The answer is in the socket when sendto(2) returns.
	answer = make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
	if err != nil {
		return nil, err
	}
	return answer[:n], nil
}
