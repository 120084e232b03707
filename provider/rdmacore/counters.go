//go:build rdmacore && cgo && linux

package rdmacore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Counters implements verbs.CounterReader: it reads what the kernel shows in sysfs.
// The counters are of everybody who uses the port. What is read again within a few
// milliseconds may be the answer that was given before.
// Source: Documentation/ABI/stable/sysfs-class-infiniband, hw_counters.
func (d *device) Counters(port uint8) ([]verbs.Counter, error) {
	list, err := d.counters(port)
	return list, verbs.Wrap("read counters", err)
}

func (d *device) counters(port uint8) ([]verbs.Counter, error) {
	if err := d.checkPort(port); err != nil {
		return nil, err
	}
	return readCounters(filepath.Join("/sys/class/infiniband", d.name, "ports", strconv.Itoa(int(port)), "hw_counters"))
}

// readCounters reads a directory that has one file for each counter, and one that
// says for how many milliseconds an answer is good. Drivers that count nothing have
// none.
func readCounters(dir string) ([]verbs.Counter, error) {
	files, err := os.ReadDir(dir) // in order of their names
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &verbs.FeatureError{Feature: "counters", Reason: err}
	}
	if err != nil {
		return nil, err
	}
	var list []verbs.Counter
	for _, file := range files {
		if file.Name() == "lifespan" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		// What is no number is nothing that was counted.
		if value, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			list = append(list, verbs.Counter{Name: file.Name(), Value: value})
		}
	}
	return list, nil
}

var _ verbs.CounterReader = (*device)(nil)
