//go:build cgo && linux

package rdmacore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rdmaloop/rdmaloop/internal/hwcounters"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Counters returns the counters of a port, which include the traffic of all programs.
// The kernel caches the values for some milliseconds. If the device has no counters, the
// error is a *verbs.FeatureError. Source:
// Documentation/ABI/stable/sysfs-class-infiniband, hw_counters.
func (d *device) Counters(port uint8) ([]verbs.Counter, error) {
	list, err := d.counters(port)
	return list, operr.Wrap("read counters", err)
}

func (d *device) counters(port uint8) ([]verbs.Counter, error) {
	if err := d.checkPort(port); err != nil {
		return nil, err
	}
	return readCounters(filepath.Join("/sys/class/infiniband", d.name, "ports", strconv.Itoa(int(port)), "hw_counters"))
}

// readCounters reads a directory with one file for each counter. If the directory is
// missing, the error is a *verbs.FeatureError.
func readCounters(dir string) ([]verbs.Counter, error) {
	files, err := os.ReadDir(dir) // ReadDir sorts the files by name.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &verbs.FeatureError{Feature: "counters", Reason: err}
	}
	if err != nil {
		return nil, err
	}
	var list []verbs.Counter
	for _, file := range files {
		if file.Name() == "lifespan" { // a setting of the kernel, not a counter
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		// If the contents are not a number, the file is not a counter.
		if value, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			list = append(list, verbs.Counter{Name: file.Name(), Help: hwcounters.Help(file.Name()), Value: value})
		}
	}
	return list, nil
}
