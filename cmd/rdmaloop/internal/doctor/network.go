package doctor

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const infiniband = "/sys/class/infiniband"

// devices lists the RDMA devices and the states of their ports.
func devices(h *Host, f *Finding) error {
	names := h.glob(infiniband + "/*")
	if len(names) == 0 {
		f.set(Note, "none", "programs use the device in software: shared memory on this host, UDP to others",
			"with a card, install its driver and rdma-core; without one, nothing")
		return nil
	}
	var list, down []string
	for _, name := range names {
		for _, port := range h.glob(path.Join(name, "ports", "*")) {
			state, err := h.text(path.Join(port, "state")) // such as "4: ACTIVE"
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s port %s %s", path.Base(name), path.Base(port), state)
			if list = append(list, text); !strings.HasPrefix(state, "4:") {
				down = append(down, text)
			}
		}
	}
	f.Found = strings.Join(list, ", ")
	if len(down) > 0 {
		f.set(Problem, strings.Join(down, ", "), "a port that is not ACTIVE connects to nobody",
			"check the cable and the network interface of the device (ip link), and rdma link show")
	}
	return nil
}

// A gid is an entry of a device's GID table, whose address a program can use.
type gid struct {
	device string
	addr   netip.Addr
}

// rocev2 returns the addresses of the devices, which are those of their GIDs for RoCE v2.
func (h *Host) rocev2() (list []gid) {
	for _, name := range h.glob(infiniband + "/*/ports/*/gids/*") {
		// A GID that is not used has no type: reading the file fails.
		kind, err := h.text(path.Join(path.Dir(path.Dir(name)), "gid_attrs", "types", path.Base(name)))
		if err != nil || kind != "RoCE v2" {
			continue
		}
		text, err := h.text(name)
		if err != nil {
			continue
		}
		if addr, err := netip.ParseAddr(text); err == nil && !addr.IsUnspecified() {
			list = append(list, gid{strings.Split(name, "/")[4], addr.Unmap()})
		}
	}
	return list
}

// gids lists the addresses of the devices.
func gids(h *Host, f *Finding) error {
	if len(h.glob(infiniband+"/*")) == 0 {
		f.Found = "no device has one"
		return nil
	}
	var list []string
	usable := false
	for _, g := range h.rocev2() {
		list = append(list, fmt.Sprintf("%s %s", g.device, g.addr))
		usable = usable || !g.addr.IsLinkLocalUnicast()
	}
	if f.Found = strings.Join(list, ", "); !usable {
		f.set(Problem, "no GID for RoCE v2 that is an address of a network: "+f.Found, "nobody can connect to the devices by an IP address",
			"give the network interface of the device an address (ip addr add)")
	}
	return nil
}

// address says which device has the address of the program.
func address(h *Host, f *Finding) error {
	if !h.Addr.IsValid() {
		f.Found = "none given; -addr ADDRESS says which device a program at ADDRESS uses"
		return nil
	}
	addr := h.Addr.Unmap()
	for _, g := range h.rocev2() {
		if g.addr == addr {
			f.Found = fmt.Sprintf("%s belongs to %s: the provider auto uses this device", addr, g.device)
			return nil
		}
	}
	local, err := h.localAddrs()
	switch {
	case err != nil:
		return err
	case addr.IsLoopback() || slices.Contains(local, addr):
		f.Found = fmt.Sprintf("%s belongs to this host and to no RDMA device: the provider auto uses the device in software", addr)
	default:
		f.set(Problem, fmt.Sprintf("%s is no address of this host", addr), "a program can not listen there",
			"use an address that ip addr shows, or add it")
	}
	return nil
}

// localAddrs returns the addresses of this host. Source: the file fib_trie, in which the line
// after an address tells its kind, and if_inet6.
func (h *Host) localAddrs() (list []netip.Addr, err error) {
	text, err := h.text("/proc/net/fib_trie")
	if err != nil {
		return nil, err
	}
	last := ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "|-- "); ok {
			last = name
		} else if addr, err := netip.ParseAddr(last); err == nil && strings.Contains(line, "/32 host LOCAL") {
			list = append(list, addr)
		}
	}
	text, err = h.text("/proc/net/if_inet6")
	if os.IsNotExist(err) {
		return list, nil // The host has no IPv6.
	}
	for line := range strings.Lines(text) {
		raw, err := hex.DecodeString(strings.Fields(line)[0])
		if addr, ok := netip.AddrFromSlice(raw); err == nil && ok {
			list = append(list, addr)
		}
	}
	return list, err
}

// lockedMemory checks how much memory a process may lock. The kernel counts all memory that
// devices use (RLIMIT_MEMLOCK, getrlimit(2)); the device in software locks none.
func lockedMemory(h *Host, f *Finding) error {
	// enough is for the buffers of some loops. Arbitrary.
	const enough = 256 << 20
	limit, err := h.softLimit("Max locked memory")
	if err != nil {
		return err
	}
	f.Found = bytesText(limit)
	if limit >= 0 && limit < enough && len(h.glob(infiniband+"/*")) > 0 {
		f.set(Problem, bytesText(limit), "opening loops or registering memory on an RDMA device fails with ENOMEM",
			"ulimit -l unlimited; for a service LimitMEMLOCK=infinity (systemd) or --ulimit memlock=-1 (docker)")
	}
	return nil
}

// udpPort looks for a process that has the UDP port of the wire path.
func udpPort(h *Host, f *Finding) error {
	f.Found = fmt.Sprintf("%d is free", h.Port)
	for _, file := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		text, err := h.text(file)
		if err != nil {
			if os.IsNotExist(err) && file == "/proc/net/udp6" {
				continue
			}
			return err
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if len(fields) < 10 || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", h.Port)) {
				continue
			}
			// A program of this library, which has some addresses, is no problem for others.
			f.set(Note, fmt.Sprintf("%d is used by %s", h.Port, h.owner(fields[9])),
				"one process has the port of an address: at the same address the wire path of a second one fails",
				"use another address (on loopback 127.0.0.2), or soft.Config.WirePort on all hosts; a kernel with Soft-RoCE has the port, too")
			return nil
		}
	}
	return nil
}

// owner returns the process that has a socket. Source: proc_pid_fd(5).
func (h *Host) owner(inode string) string {
	for _, fd := range h.glob("/proc/[0-9]*/fd/*") {
		if target, err := os.Readlink(h.path(fd)); err == nil && target == "socket:["+inode+"]" {
			pid := strings.Split(fd, "/")[2]
			name, _ := h.text("/proc/" + pid + "/comm") // It is empty if the process has ended.
			return fmt.Sprintf("process %s %s", pid, name)
		}
	}
	return "the kernel or a process of another user"
}

// receiveBuffer checks the largest buffer of a UDP socket.
func receiveBuffer(h *Host, f *Finding) error {
	const enough = 4 << 20 // provider/soft asks for this size.
	size, err := h.number("/proc/sys/net/core/rmem_max")
	if err != nil {
		return err
	}
	f.Found = "rmem_max is " + bytesText(size)
	if size < enough {
		f.set(Note, f.Found, "packets of many peers at once are dropped (counter rcvd_overrun_err), and sent again after a timeout",
			"sysctl net.core.rmem_max="+strconv.Itoa(enough))
	}
	return nil
}
