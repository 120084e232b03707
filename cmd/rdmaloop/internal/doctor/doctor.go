// Package doctor looks at what a host has and allows, and says what that means for a program
// that uses rdmaloop. It only reads files of Linux, below a directory that is / except in
// tests: proc(5), sysfs(5), cgroups(7).
package doctor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Level says how much a Finding matters.
type Level int

const (
	OK      Level = iota // nothing to do
	Note                 // matters for some programs, such as those that need the lowest latency
	Problem              // something will fail, or be slow
	Unknown              // could not be read
)

var levelNames = [...]string{"ok", "note", "problem", "unknown"}

func (l Level) String() string { return levelNames[l] }

// MarshalText returns the name of the level, for JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// A Finding is the result of one check.
type Finding struct {
	Topic string `json:"topic"` // the name of the check, such as "locked memory"
	Level Level  `json:"level"`
	Found string `json:"found"`           // what is there
	Means string `json:"means,omitempty"` // what follows from it; empty if Level is OK
	Do    string `json:"do,omitempty"`    // what to do; empty if Level is OK
}

// A Host is what Examine looks at.
type Host struct {
	Root string     // directory of proc and sys, "/" except in tests
	Addr netip.Addr // address that a program will use; zero means any
	Port uint16     // UDP port of the wire path, 4791 by default: soft.Config.WirePort
	CPUs []int      // processors to which loops will be pinned, one for each loop; empty means none

	GOMAXPROCS int // of this process, which has the limits and the environment of the program
}

// checks are all checks, in the order of the output.
var checks = []struct {
	topic string
	check func(*Host, *Finding) error
}{
	{"RDMA devices", devices},
	{"GIDs", gids},
	{"address", address},
	{"locked memory", lockedMemory},
	{"UDP port", udpPort},
	{"UDP receive buffer", receiveBuffer},
	{"descriptors", descriptors},
	{"mappings", mappings},
	{"container limits", containerLimits},
	{"processors", processors},
	{"GOMAXPROCS", maxProcs},
	{"frequency governor", governor},
	{"isolated processors", isolated},
	{"interrupts", interrupts},
	{"huge pages", hugePages},
}

// Examine runs all checks. A check that can not read what it needs has the level Unknown.
func (h *Host) Examine() []Finding {
	list := make([]Finding, len(checks))
	for i, c := range checks {
		f := &list[i]
		f.Topic = c.topic
		if err := c.check(h, f); err != nil {
			*f = Finding{Topic: c.topic, Level: Unknown, Found: err.Error()}
		}
	}
	return list
}

// Write returns the findings as text for people, or as JSON.
func Write(list []Finding, asJSON bool) string {
	if asJSON {
		text, _ := json.MarshalIndent(list, "", "\t") // The types have no value that fails.
		return string(text) + "\n"
	}
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%-8s %-20s %s\n", f.Level, f.Topic, f.Found)
		for _, line := range []string{f.Means, f.Do} {
			if line != "" {
				fmt.Fprintf(&b, "%29s %s\n", "", line)
			}
		}
	}
	return b.String()
}

func (f *Finding) set(l Level, found, means, do string) {
	f.Level, f.Found, f.Means, f.Do = l, found, means, do
}

func (h *Host) path(name string) string { return filepath.Join(h.Root, name) }

// text returns the content of a file without the white space around it.
func (h *Host) text(name string) (string, error) {
	b, err := os.ReadFile(h.path(name))
	return strings.TrimSpace(string(b)), err
}

// number returns the number that a file has.
func (h *Host) number(name string) (int64, error) {
	text, err := h.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", h.path(name), err)
	}
	return n, nil
}

// glob returns the names of files, without Root. In the pattern * stands for a part of a name.
func (h *Host) glob(pattern string) []string {
	names, _ := filepath.Glob(h.path(pattern)) // The patterns are constants, and are valid.
	for i := range names {
		names[i] = "/" + strings.TrimPrefix(strings.TrimPrefix(names[i], h.Root), "/")
	}
	return names
}

// softLimit returns a soft limit of this process, which is also that of programs that its
// shell starts; -1 means no limit. Source: proc_pid_limits(5).
func (h *Host) softLimit(name string) (int64, error) {
	const file = "/proc/self/limits"
	text, err := h.text(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			continue
		}
		if fields[0] == "unlimited" {
			return -1, nil
		}
		return strconv.ParseInt(fields[0], 10, 64)
	}
	return 0, fmt.Errorf("%s has no line %q", h.path(file), name)
}

// ParseList parses a list of processors such as "0,2-3". An empty text is an empty list.
func ParseList(text string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err := strconv.Atoi(first)
		high, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || low < 0 || high < low || high > 1<<16 {
			return nil, fmt.Errorf("%q is no list of processors such as 0,2-3", text)
		}
		for i := low; i <= high; i++ {
			list = append(list, i)
		}
	}
	return list, nil
}

// bytesText returns a number of bytes with its unit.
func bytesText(n int64) string {
	switch {
	case n < 0:
		return "unlimited"
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
