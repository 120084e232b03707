// Package pages finds keys in the pages of a bbolt file. The file may have arbitrary
// bytes: a page that is not valid leads to an error, and never to a panic.
//
// A bbolt file consists of pages of the same size. The pages of a bucket are a B+tree:
// branch pages have keys and numbers of other pages, and leaf pages have keys and values.
// A page that needs more room continues in the pages that follow it. Source:
// internal/common of go.etcd.io/bbolt.
package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
)

// Errors of pages that are not valid, or that this package does not read.
var (
	ErrInvalid = errors.New("invalid page")
	ErrTooLong = errors.New("page is too long")
)

const (
	headerSize  = 16 // bytes of a page's header: number u64, flags u16, count u16, overflow u32
	elementSize = 16 // bytes of an element of a branch page or leaf page

	flagBranch = 0x01
	flagLeaf   = 0x02

	flagBucket = 0x01 // flag of an element of a leaf page: the value is a bucket
)

// A page is a checked branch page or leaf page. A long page continues in further pages,
// which belong to it.
type page struct {
	data  []byte
	leaf  bool
	count int // number of elements of the page
}

// overflow returns in how many further pages the page that begins with b continues.
func overflow(b []byte) uint64 { return uint64(binary.NativeEndian.Uint32(b[12:])) }

// parse checks the page number id, which has the bytes b. The file has limit pages.
// Numbers are in the byte order of the host that has written the file.
func parse(b []byte, id, limit uint64) (page, error) {
	if len(b) < headerSize {
		return page{}, invalid(id, "it is shorter than its header")
	}
	p := page{data: b, count: int(binary.NativeEndian.Uint16(b[10:]))}
	switch flags := binary.NativeEndian.Uint16(b[8:]); {
	case binary.NativeEndian.Uint64(b) != id:
		return page{}, invalid(id, "it has another number")
	case flags != flagBranch && flags != flagLeaf:
		return page{}, invalid(id, "it is neither a branch nor a leaf")
	case flags == flagBranch && p.count == 0:
		return page{}, invalid(id, "it is a branch without elements")
	case headerSize+p.count*elementSize > len(b):
		return page{}, invalid(id, "its elements do not fit")
	default:
		p.leaf = flags == flagLeaf
	}
	for i := range p.count {
		if !p.fits(i) {
			return page{}, invalid(id, "an element is outside the page")
		}
		if i > 0 && bytes.Compare(p.key(i-1), p.key(i)) >= 0 {
			return page{}, invalid(id, "its keys are not in order")
		}
		if child := p.child(i); !p.leaf && (child < firstPage || child >= limit) {
			return page{}, invalid(id, "it refers to a page outside the file")
		}
	}
	return p, nil
}

func invalid(id uint64, reason string) error {
	return fmt.Errorf("%w: page %d: %s", ErrInvalid, id, reason)
}

// element returns the fields of an element. An element of a branch has position, size of
// the key, and page number. An element of a leaf has flags, position, size of the key and
// size of the value.
func (p *page) element(i int) []byte {
	at := headerSize + i*elementSize
	return p.data[at : at+elementSize]
}

// extent returns where the key begins in the page, and the sizes of the key and the
// value. The position is relative to the element.
func (p *page) extent(i int) (begin, key, value uint64) {
	fields := p.element(i)
	if p.leaf {
		value = uint64(binary.NativeEndian.Uint32(fields[12:]))
		fields = fields[4:]
	}
	position := binary.NativeEndian.Uint32(fields)
	key = uint64(binary.NativeEndian.Uint32(fields[4:]))
	return uint64(headerSize+i*elementSize) + uint64(position), key, value
}

// fits reports whether the key and the value are behind the elements and in the page. No
// key is empty.
func (p *page) fits(i int) bool {
	begin, key, value := p.extent(i)
	end := uint64(headerSize + p.count*elementSize)
	return key > 0 && begin >= end && begin+key+value <= uint64(len(p.data))
}

// key returns the key of an element.
func (p *page) key(i int) []byte {
	begin, key, _ := p.extent(i)
	return p.data[begin : begin+key]
}

// value returns the value of an element of a leaf, and whether the value is a bucket.
func (p *page) value(i int) (value []byte, bucket bool) {
	begin, key, size := p.extent(i)
	flags := binary.NativeEndian.Uint32(p.element(i))
	return p.data[begin+key : begin+key+size], flags&flagBucket != 0
}

// child returns the page number of an element of a branch.
func (p *page) child(i int) uint64 { return binary.NativeEndian.Uint64(p.element(i)[8:]) }

// search returns the first element whose key is not less than key, or count.
func (p *page) search(key []byte) int {
	return sort.Search(p.count, func(i int) bool { return bytes.Compare(p.key(i), key) >= 0 })
}

// find returns the value of a key in a leaf. It is nil if the leaf does not have the key.
func (p *page) find(key []byte) (value []byte, bucket bool) {
	i := p.search(key)
	if i == p.count || !bytes.Equal(p.key(i), key) {
		return nil, false
	}
	return p.value(i)
}

// descend returns the element of a branch with which a search for the key continues. It
// is the last element whose own key is not greater, or element 0 if there is none.
func (p *page) descend(key []byte) int {
	i := p.search(key)
	if i < p.count && bytes.Equal(p.key(i), key) {
		return i
	}
	return max(i-1, 0)
}

// A keyRange is the range of keys that a page may have. The smallest allowed key is low,
// and all keys must be less than high. A bound that is nil does not limit the keys.
type keyRange struct{ low, high []byte }

// has reports whether all keys of the page are in the range.
func (r keyRange) has(p *page) bool {
	if p.count == 0 {
		return true
	}
	return bytes.Compare(p.key(0), r.low) >= 0 && (r.high == nil || bytes.Compare(p.key(p.count-1), r.high) < 0)
}

// of returns the range of keys for the page to which element i of the branch p refers.
// The range r is the range for p itself.
func (r keyRange) of(p *page, i int) keyRange {
	r.low = p.key(i)
	if i+1 < p.count {
		r.high = p.key(i + 1)
	}
	return r
}
