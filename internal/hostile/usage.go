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

// A Usage is the resource use of a process.
type Usage struct {
	Resident    uint64 // Bytes of memory now: VmRSS of proc_pid_status(5).
	Peak        uint64 // Largest value of Resident so far: VmHWM.
	Descriptors int    // Entries of /proc/pid/fd.
	Mappings    int    // Lines of /proc/pid/maps, which vm.max_map_count limits.
}

// UsageOf reads the resource use of a process from /proc.
func UsageOf(pid int) (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return u, err
	}
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

// kilobytes returns a value of a status file in bytes. It is zero for a process that
// has exited.
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
