package wire

// A layout copies the fields of a message to bytes or from bytes. So Encode and Decode
// use the same list of fields.
type layout struct {
	data    *[MADDataSize]byte
	toBytes bool
}

type unsigned interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// number copies an integer field of the given width in bits. The field begins at the
// offset off, in bytes.
func number[T unsigned](l layout, off, width int, v *T) { field(l, off, 0, width, v) }

// field copies an integer field that begins within the byte at the offset off. Bit 0 is
// the most significant bit of a byte.
func field[T unsigned](l layout, off, bit, width int, v *T) {
	size := (bit + width + 7) / 8
	b := l.data[off : off+size]
	shift := 8*size - bit - width
	mask := uint64(1)<<width - 1
	whole := bigEndian(b)
	if !l.toBytes {
		*v = T(whole >> shift & mask)
		return
	}
	putBigEndian(b, whole&^(mask<<shift)|uint64(*v)&mask<<shift)
}

// flag copies a field of one bit.
func flag(l layout, off, bit int, v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	field(l, off, bit, 1, &n)
	*v = n == 1
}

// raw copies a field of bytes.
func raw(l layout, off int, v []byte) {
	if l.toBytes {
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
