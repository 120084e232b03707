package main

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
)

// File types of an entry: see inode(7).
const (
	typeDirectory = 0o040000
	typeFile      = 0o100000
)

// A tree is the contents of an archive: the contents of each file by its path, without
// a leading slash. All files are executable. writeTo adds the directories that they
// need.
type tree map[string][]byte

// writeTo writes the tree as a cpio archive that the kernel unpacks at boot. Several
// archives may follow one another in an initrd. See
// Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's source.
func (t tree) writeTo(w io.Writer) error {
	archive := &cpio{w: w}
	for _, dir := range t.directories() {
		archive.entry(dir, typeDirectory|0o755, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		archive.entry(name, typeFile|0o755, t[name])
	}
	archive.entry("TRAILER!!!", 0, nil)
	return archive.err
}

// directories lists every directory that a file needs, parents first.
func (t tree) directories() []string {
	need := map[string]bool{}
	for name := range t {
		for dir := path.Dir(name); dir != "." && !need[dir]; dir = path.Dir(dir) {
			need[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(need))
}

// A cpio writes entries in the "newc" format. It keeps the first error and writes
// nothing after it.
type cpio struct {
	w     io.Writer
	inode int
	err   error
}

func (c *cpio) entry(name string, mode int, data []byte) {
	c.inode++
	header := "070701"
	for _, field := range []int{
		c.inode, mode, 0, 0, // Owner and group: root.
		1, 0, // Number of links and time of modification.
		len(data), 0, 0, 0, 0, // Size and device numbers.
		len(name) + 1, 0, // Size of the name with its final zero, and checksum.
	} {
		header += fmt.Sprintf("%08x", field)
	}
	c.padded(append([]byte(header), name+"\x00"...))
	c.padded(data)
}

// padded writes b, followed by zeros up to a multiple of four bytes.
func (c *cpio) padded(b []byte) {
	for _, part := range [][]byte{b, make([]byte, -len(b)&3)} {
		if c.err == nil {
			_, c.err = c.w.Write(part)
		}
	}
}
