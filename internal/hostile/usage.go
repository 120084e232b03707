//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A Usage is the memory, descriptors and mappings of a process. Source:
// proc_pid_status(5), vm.max_map_count.
type Usage struct {
	Resident uint64 // resident memory in bytes now: VmRSS
	// Largest resident memory in bytes so far: VmHWM.
	Peak        uint64
	Virtual     uint64 // largest size of the address space so far, in bytes: VmPeak
	Descriptors int    // open descriptors: entries of /proc/pid/fd
	// Lines of /proc/pid/maps. The kernel's limit is vm.max_map_count.
	Mappings int
}

// UsageOf reads the resource use of a process from /proc.
func UsageOf(pid int) (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return u, err
	}
	u.Virtual = kilobytes(status, "VmPeak:")
	u.Resident, u.Peak = kilobytes(status, "VmRSS:"), kilobytes(status, "VmHWM:")
	fds, err := os.ReadDir(dir + "fd")
	if err != nil {
		return u, err
	}
	maps, err := os.ReadFile(dir + "maps")
	if err != nil {
		return u, err
	}
	u.Descriptors, u.Mappings = len(fds), bytes.Count(maps, []byte("\n"))
	return u, nil
}

// kilobytes returns the number in one line of a status file, in bytes. If the process has
// exited, the line is missing and the result is 0.
func kilobytes(status []byte, name string) uint64 {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok {
			continue
		}
		n, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		return n << 10
	}
	return 0
}
