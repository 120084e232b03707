// Package disk stores the blocks of a namespace in a file.
package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// A File is a disk whose blocks are in a file or on a block device. Any goroutine may
// call its methods, also at the same time.
type File struct {
	file     *os.File
	size     int64
	readOnly bool
	inMemory bool // true if the file system stores its files only in memory
}

// ErrInUse reports a file that another process serves already.
var ErrInUse = errors.New("another process uses the file")

// Open opens the file with the given name, and locks it. It fails with ErrInUse if
// another process has locked the file.
//
// If size is not 0, a missing file is created, and a file of another size is an error.
// If size is 0, the file must exist, and Open accepts any size except 0.
func Open(name string, size int64, readOnly bool) (*File, error) {
	flags := os.O_RDWR
	switch {
	case readOnly:
		flags = os.O_RDONLY
	case size > 0:
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	d := &File{file: f, readOnly: readOnly, inMemory: inMemory(f)}
	if err = d.prepare(size); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return d, nil
}

// prepare locks the file and finds out its size. An empty file gets the given size.
func (d *File) prepare(size int64) (err error) {
	if err = lock(d.file, d.readOnly); err != nil {
		return err
	}
	// For files and for block devices, the offset of the end is the size.
	if d.size, err = d.file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if d.size == 0 && size > 0 && !d.readOnly {
		d.size = size
		return d.file.Truncate(size)
	}
	if d.size == 0 || size > 0 && size != d.size {
		return fmt.Errorf("the file has %d bytes instead of %d", d.size, size)
	}
	return nil
}

// Size returns the size in bytes.
func (d *File) Size() int64 { return d.size }

// ReadOnly reports whether the disk refuses writes.
func (d *File) ReadOnly() bool { return d.readOnly }

// ReadAt fills b with the bytes at the offset. It fails if the file has become shorter.
func (d *File) ReadAt(b []byte, offset int64) error {
	_, err := d.file.ReadAt(b, offset)
	return err
}

// WriteAt stores b at the offset. When it returns, the data survives the end of this
// process, but only Flush makes the data survive the end of the system.
func (d *File) WriteAt(b []byte, offset int64) error {
	_, err := d.file.WriteAt(b, offset)
	return err
}

// TryReadAt does what ReadAt does, if the read does not have to wait for a device.
// Otherwise done is false, and a part of b may be filled.
func (d *File) TryReadAt(b []byte, offset int64) (done bool, err error) {
	if d.inMemory {
		return true, d.ReadAt(b, offset)
	}
	return readNoWait(d.file, b, offset), nil
}

// TryWriteAt does what WriteAt does, if the write does not have to wait for a device.
// Otherwise done is false, and a part of b may be stored.
func (d *File) TryWriteAt(b []byte, offset int64) (done bool, err error) {
	if d.inMemory {
		return true, d.WriteAt(b, offset)
	}
	return writeNoWait(d.file, b, offset), nil
}

// Flush makes all data durable that was stored before.
func (d *File) Flush() error { return flush(d.file) }

// Zero makes n bytes at the offset read as zeros.
func (d *File) Zero(offset, n int64) error {
	err := zero(d.file, offset, n)
	if errors.Is(err, errors.ErrUnsupported) {
		return d.writeZeros(offset, n)
	}
	return err
}

// writeZeros stores n zeros at the offset.
func (d *File) writeZeros(offset, n int64) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		part := zeros[:min(n, int64(len(zeros)))]
		if err := d.WriteAt(part, offset); err != nil {
			return err
		}
		offset, n = offset+int64(len(part)), n-int64(len(part))
	}
	return nil
}

// Discard tells the file system that n bytes at the offset are not needed any more. Their
// contents are zeros afterwards, or unchanged if the file system can not do it.
func (d *File) Discard(offset, n int64) error {
	if err := punch(d.file, offset, n); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// Close unlocks and closes the file.
func (d *File) Close() error { return d.file.Close() }
