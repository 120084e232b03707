package leak

import (
	"os"
	"path/filepath"
	"strings"
)

// descriptors returns the open descriptors as texts of the form "number -> target". The
// target tells the kind and the inode. See proc_pid_fd(5).
func descriptors() []string {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		// Readlink fails if the descriptor has been closed after ReadDir. One example is
		// the descriptor that ReadDir itself used.
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			list = append(list, e.Name()+" -> "+target)
		}
	}
	return list
}

// mappings returns the lines of /proc/self/maps for memory files. See proc_pid_maps(5)
// and memfd_create(2).
func mappings() []string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "/memfd:") {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return list
}

// startNetpoll makes the runtime open the descriptors of its network poller, so that
// they are in the first snapshot. The runtime never closes them.
func startNetpoll() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	_, _ = r.Close(), w.Close()
}
