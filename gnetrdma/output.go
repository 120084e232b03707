package gnetrdma

import "github.com/panjf2000/gnet/v2/pkg/pool/byteslice"

// chunkSize is the size in bytes of a piece of memory of an output.
const chunkSize = 64 << 10

// An output has bytes that wait until the peer reads. The memory is from the pool of
// gnet.
type output struct {
	chunks [][]byte // memory of the bytes; only the last chunk may have room for more
	start  int      // how many bytes of the first chunk were removed
	size   int      // number of bytes
}

// len returns the number of bytes.
func (o *output) len() int { return o.size }

// add appends a copy of b.
func (o *output) add(b []byte) {
	for len(b) > 0 {
		n := copy(o.room(), b)
		o.added(n)
		b = b[n:]
	}
}

// room returns memory for more bytes, at least one. After the caller has stored bytes at
// its beginning, it calls added.
func (o *output) room() []byte {
	last := len(o.chunks) - 1
	if last < 0 || len(o.chunks[last]) == cap(o.chunks[last]) {
		o.chunks = append(o.chunks, byteslice.Get(chunkSize)[:0])
		last++
	}
	chunk := o.chunks[last]
	return chunk[len(chunk):cap(chunk)]
}

// added appends the first n bytes of the result of room.
func (o *output) added(n int) {
	last := len(o.chunks) - 1
	o.chunks[last] = o.chunks[last][:len(o.chunks[last])+n]
	o.size += n
}

// first returns the first bytes. There are some.
func (o *output) first() []byte { return o.chunks[0][o.start:] }

// remove removes the first n bytes, at most len(first()).
func (o *output) remove(n int) {
	o.size -= n
	if o.start += n; o.start == len(o.chunks[0]) {
		o.dropChunk()
	}
}

// dropChunk gives the first chunk back.
func (o *output) dropChunk() {
	byteslice.Put(o.chunks[0])
	last := copy(o.chunks, o.chunks[1:])
	o.chunks[last] = nil
	o.chunks = o.chunks[:last]
	o.start = 0
}

// free removes all bytes.
func (o *output) free() {
	for len(o.chunks) > 0 {
		o.dropChunk()
	}
	o.size = 0
}
