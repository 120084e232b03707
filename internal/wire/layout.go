package wire

// A layout copies the fields of a message from a struct to bytes, or from bytes to a
// struct. Each message lists its fields in one method, which is used for both directions,
// so that encoding and decoding always agree.
type layout struct {
	data  *[MADDataSize]byte
	write bool
}

type unsigned interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// number encodes or decodes a field of the given width in bits, which begins with the
// byte at offset off.
func number[T unsigned](l layout, off, width int, v *T) { field(l, off, 0, width, v) }

// field encodes or decodes a field of the given width in bits, which begins with a bit of
// the byte at offset off. Bit 0 is the most significant bit of a byte. Only the low bits
// of v are encoded, as many as the field has.
func field[T unsigned](l layout, off, bit, width int, v *T) {
	size := (bit + width + 7) / 8
	b := l.data[off : off+size]
	shift := 8*size - bit - width
	mask := uint64(1)<<width - 1
	whole := bigEndian(b)
	if !l.write {
		*v = T(whole >> shift & mask)
		return
	}
	putBigEndian(b, whole&^(mask<<shift)|uint64(*v)&mask<<shift)
}

// flag encodes or decodes a field of one bit.
func flag(l layout, off, bit int, v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	field(l, off, bit, 1, &n)
	*v = n == 1
}

// raw encodes or decodes a field of len(v) bytes.
func raw(l layout, off int, v []byte) {
	if l.write {
		copy(l.data[off:], v)
	} else {
		copy(v, l.data[off:])
	}
}

func bigEndian(b []byte) (v uint64) {
	for _, digit := range b {
		v = v<<8 | uint64(digit)
	}
	return v
}

func putBigEndian(b []byte, v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte(v)
		v >>= 8
	}
}
