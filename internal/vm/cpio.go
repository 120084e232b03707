package main

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
)

// File types in the mode of an archive entry: see inode(7).
const (
	typeDirectory = 0o040000
	typeFile      = 0o100000
)

// A tree is the contents of an archive. It maps the path of each file, without a leading
// slash, to the contents of the file. All files are executable. The method writeTo also
// writes the directories of the files.
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

// directories lists the directories of all files. A directory comes after its parent.
func (t tree) directories() []string {
	need := map[string]bool{}
	for name := range t {
		for dir := path.Dir(name); dir != "." && !need[dir]; dir = path.Dir(dir) {
			need[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(need))
}

// A cpio writes the entries of an archive in the format "newc". It stores the first error
// of a write, and writes nothing after that error.
type cpio struct {
	w     io.Writer
	inode int
	err   error
}

func (c *cpio) entry(name string, mode int, data []byte) {
	c.inode++
	header := "070701"
	for _, field := range []int{
		c.inode, mode, 0, 0, // The zeros are the user ID and the group ID of the owner: root.
		1, 0, // The number of links and the modification time.
		len(data), 0, 0, 0, 0, // The size of the file and four device numbers.
		// The size of the name, including the zero byte at its end, and the checksum.
		len(name) + 1, 0,
	} {
		header += fmt.Sprintf("%08x", field)
	}
	c.padded(append([]byte(header), name+"\x00"...))
	c.padded(data)
}

// padded writes the bytes b. After them it writes as many zeros as are needed for a
// multiple of four bytes.
func (c *cpio) padded(b []byte) {
	for _, part := range [][]byte{b, make([]byte, -len(b)&3)} {
		if c.err == nil {
			_, c.err = c.w.Write(part)
		}
	}
}
