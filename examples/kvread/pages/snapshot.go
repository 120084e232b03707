package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrNoBucket means that the store has no such bucket.
var ErrNoBucket = errors.New("no such bucket")

const (
	firstPage = 2 // number of the first page behind those that describe the whole file

	// Limits for a file that is not valid. Arbitrary.
	maxDepth = 32      // largest number of pages from the root to a leaf
	maxCache = 4 << 20 // largest number of bytes of the branch pages that a Snapshot keeps

	minPageSize, maxPageSize = 512, 1 << 16

	// bytes before the page of a small bucket: page number u64, sequence u64
	bucketHeaderSize = 16
)

// A Source reads pages of a file.
type Source interface {
	// ReadPages reads count pages, beginning with the page id. The bytes are valid until
	// the next call.
	ReadPages(id uint64, count int) ([]byte, error)
	// MaxPages is the largest count.
	MaxPages() int
}

// A Snapshot is one version of a store. The pages of the version must not change while
// the Snapshot is used. Only one goroutine may use it.
type Snapshot struct {
	source   Source
	pageSize int
	root     uint64 // page of the bucket that has all other buckets
	limit    uint64 // number of pages of the file
	// branches has branch pages by number, and cached is the number of their bytes.
	branches map[uint64]page
	cached   int
	buckets  map[string]bucket
}

// A bucket is one tree of the store. Its name is a key in another tree. A small bucket
// has no pages of its own: its only page is in the value of this key.
type bucket struct {
	root   uint64
	inline page // page of a small bucket; valid if root is 0
}

// NewSnapshot returns a Snapshot of a file with limit pages of pageSize bytes. The page
// with the number root has the names of the buckets.
func NewSnapshot(source Source, pageSize int, root, limit uint64) (*Snapshot, error) {
	switch {
	case pageSize < minPageSize || pageSize > maxPageSize:
		return nil, fmt.Errorf("%w: pages of %d bytes", ErrInvalid, pageSize)
	case root < firstPage || root >= limit:
		return nil, fmt.Errorf("%w: the first page is page %d of %d", ErrInvalid, root, limit)
	}
	return &Snapshot{
		source: source, pageSize: pageSize, root: root, limit: limit,
		branches: make(map[uint64]page), buckets: make(map[string]bucket),
	}, nil
}

// Get returns the value of a key. It returns nil if the bucket does not have the key, or
// if the value is a bucket. The value is valid until the next call.
//
// The error is ErrNoBucket, an error that matches ErrInvalid or ErrTooLong, or an error
// of the Source.
func (s *Snapshot) Get(name, key []byte) ([]byte, error) {
	b, err := s.bucket(name)
	if err != nil {
		return nil, err
	}
	var value []byte
	isBucket := false
	if b.root == 0 {
		value, isBucket = b.inline.find(key)
	} else if value, isBucket, err = s.find(b.root, key); err != nil {
		return nil, err
	}
	if isBucket {
		return nil, nil
	}
	return value, nil
}

// bucket returns the bucket with a name.
func (s *Snapshot) bucket(name []byte) (bucket, error) {
	if b, ok := s.buckets[string(name)]; ok {
		return b, nil
	}
	value, isBucket, err := s.find(s.root, name)
	switch {
	case err != nil:
		return bucket{}, err
	case !isBucket:
		return bucket{}, ErrNoBucket
	case len(value) < bucketHeaderSize:
		return bucket{}, invalid(s.root, "a bucket is shorter than its header")
	}
	b := bucket{root: binary.NativeEndian.Uint64(value)}
	if b.root == 0 {
		b.inline, err = parse(bytes.Clone(value[bucketHeaderSize:]), 0, 0)
	}
	if err == nil && b.root == 0 && !b.inline.leaf {
		err = invalid(0, "a bucket without a page of its own is not a leaf")
	}
	if err != nil {
		return bucket{}, err
	}
	s.buckets[string(name)] = b
	return b, nil
}

// find looks for a key in the tree that begins with the page id.
func (s *Snapshot) find(id uint64, key []byte) (value []byte, isBucket bool, err error) {
	var keys keyRange
	for range maxDepth {
		p, err := s.page(id)
		switch {
		case err != nil:
			return nil, false, err
		case !keys.has(&p):
			return nil, false, invalid(id, "it has keys of another page")
		case p.leaf:
			value, isBucket = p.find(key)
			return value, isBucket, nil
		}
		i := p.descend(key)
		keys, id = keys.of(&p, i), p.child(i)
	}
	return nil, false, invalid(id, "the tree is too deep")
}

// page reads and checks a page. It keeps copies of branch pages, because every search
// needs them.
func (s *Snapshot) page(id uint64) (page, error) {
	if p, ok := s.branches[id]; ok {
		return p, nil
	}
	b, err := s.read(id)
	if err != nil {
		return page{}, err
	}
	p, err := parse(b, id, s.limit)
	if err != nil || p.leaf {
		return p, err
	}
	p.data = bytes.Clone(b)
	if s.cached += len(b); s.cached > maxCache {
		clear(s.branches)
		s.cached = len(b)
	}
	s.branches[id] = p
	return p, nil
}

// read reads a page and the pages in which it continues.
func (s *Snapshot) read(id uint64) ([]byte, error) {
	if id < firstPage || id >= s.limit {
		return nil, invalid(id, "it is outside the file")
	}
	b, err := s.readPages(id, 1)
	if err != nil {
		return nil, err
	}
	more := overflow(b)
	switch {
	case more == 0:
		return b, nil
	case more >= s.limit-id:
		return nil, invalid(id, "it continues outside the file")
	case more >= uint64(s.source.MaxPages()):
		return nil, fmt.Errorf("%w: page %d continues in %d pages", ErrTooLong, id, more)
	}
	return s.readPages(id, int(more)+1)
}

func (s *Snapshot) readPages(id uint64, count int) ([]byte, error) {
	b, err := s.source.ReadPages(id, count)
	if err == nil && len(b) != count*s.pageSize {
		return nil, fmt.Errorf("%w: %d bytes instead of %d pages", ErrInvalid, len(b), count)
	}
	return b, err
}
