//go:build unix

package memory

import "golang.org/x/sys/unix"

// Map returns n bytes of new memory.
func Map(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// MapFile maps n bytes of a file. The offset is a multiple of the size of a page.
func MapFile(fd int, offset int64, n int, write bool) ([]byte, error) {
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	return unix.Mmap(fd, offset, n, prot, unix.MAP_SHARED)
}

// Unmap ends a mapping.
func Unmap(b []byte) error { return unix.Munmap(b) }
