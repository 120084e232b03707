package main

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
)

// File types in the mode of an entry (inode(7)).
const (
	typeDirectory = 0o040000
	typeFile      = 0o100000
)

// A tree is the contents of an archive: files by path, without a leading slash. All files
// are executable. Directories are not listed; writeTo adds them.
type tree map[string][]byte

// writeTo writes the tree as a cpio archive, which the kernel unpacks at boot. An initrd
// may consist of several archives. Source:
// Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
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

// directories lists the directories of all files, each after its parent.
func (t tree) directories() []string {
	need := map[string]bool{}
	for name := range t {
		for dir := path.Dir(name); dir != "." && !need[dir]; dir = path.Dir(dir) {
			need[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(need))
}

// A cpio writes archive entries in the format "newc". After an error, it writes nothing
// more.
type cpio struct {
	w     io.Writer
	inode int
	err   error
}

func (c *cpio) entry(name string, mode int, data []byte) {
	c.inode++
	header := "070701"
	for _, field := range []int{
		c.inode, mode, 0, 0, // user ID and group ID of root
		1, 0, // number of links to the file, modification time
		len(data), 0, 0, 0, 0, // size of the file, and four device numbers
		// Size of the name with its zero byte, and the checksum.
		len(name) + 1, 0,
	} {
		header += fmt.Sprintf("%08x", field)
	}
	c.padded(append([]byte(header), name+"\x00"...))
	c.padded(data)
}

// padded writes b, and then zeros up to a multiple of four bytes.
func (c *cpio) padded(b []byte) {
	for _, part := range [][]byte{b, make([]byte, -len(b)&3)} {
		if c.err == nil {
			_, c.err = c.w.Write(part)
		}
	}
}
