package leak

import (
	"os"
	"path/filepath"
	"strings"
)

// descriptors returns the open descriptors of the process, each as "number -> target".
// Source: proc_pid_fd(5).
func descriptors() []string {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		// Readlink fails for the descriptor that ReadDir opened for the directory,
		// because ReadDir has closed it.
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			list = append(list, e.Name()+" -> "+target)
		}
	}
	return list
}

// mappings returns the lines of /proc/self/maps for memory files. Source:
// proc_pid_maps(5).
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

// startNetpoll makes the Go runtime open the descriptors of its network poller. They stay
// open, so the first snapshot must have them.
func startNetpoll() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	_, _ = r.Close(), w.Close()
}
