package main

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// describeMachine describes this machine in one line: processor, frequency governor,
// operating system and Go version.
func describeMachine() string { return describe(os.DirFS("/")) }

// describe describes the machine whose files are in root.
func describe(root fs.FS) string {
	parts := []string{processor(root), fmt.Sprintf("%d processors for this program", runtime.NumCPU())}
	if strings.Contains(cpuinfo(root, "flags")+" ", " hypervisor ") {
		parts = append(parts, "in a virtual machine")
	}
	if governor := line(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"); governor != "" {
		parts = append(parts, "governor "+governor)
	} else {
		parts = append(parts, "governor unknown")
	}
	system := strings.TrimSpace(line(root, "proc/sys/kernel/ostype") + " " + line(root, "proc/sys/kernel/osrelease"))
	if system == "" {
		system = runtime.GOOS
	}
	return strings.Join(append(parts, system, runtime.Version()), ", ")
}

func processor(root fs.FS) string {
	if model := cpuinfo(root, "model name"); model != "" {
		return strings.TrimSpace(model)
	}
	return runtime.GOARCH
}

// cpuinfo returns the value of the first line of /proc/cpuinfo with the given name, or
// "" if there is no such line.
func cpuinfo(root fs.FS, name string) string {
	text, _ := fs.ReadFile(root, "proc/cpuinfo")
	for l := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), ":")
		if strings.TrimSpace(key) == name {
			return value
		}
	}
	return ""
}

// line returns the text of a file, or "" if the file can not be read.
func line(root fs.FS, name string) string {
	text, _ := fs.ReadFile(root, name)
	return strings.TrimSpace(string(text))
}
