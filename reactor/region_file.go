package reactor

import (
	"os"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// MapFile maps a part of a file, and makes a Region of the mapping. The offset and the
// length are in bytes. The mapping is shared: WRITEs of peers change the file, and
// msync(2) or fsync(2) stores the changes. The file is mapped for writing if access has
// verbs.AccessLocalWrite. The descriptor may be closed when MapFile returns.
//
// A file may be shorter than the mapping, or become shorter. With the package soft, an
// operation on the missing bytes fails. The status at the requester is
// verbs.StatusLocProtErr for its own memory, and verbs.StatusRemOpErr for memory of the
// peer. Only operations are protected: when the program itself uses missing bytes of
// Region.Bytes, the process gets SIGBUS.
//
// The package rdmacore pins the pages. All bytes must exist when the file is mapped. When
// the file becomes shorter, operations use pages that do not belong to the file any more.
// The kernel may refuse to pin pages of a file (ibv_reg_mr(3)).
//
// The errors are those of Register, of mmap(2), and a *verbs.ParamError if the offset is
// negative.
func (e *Engine) MapFile(fd int, offset int64, length int, access verbs.Access) (*Region, error) {
	const op = "map file"
	if err := checkMemory(length, access); err != nil {
		return nil, operr.Wrap(op, err)
	}
	if offset < 0 {
		return nil, operr.Wrap(op, &verbs.ParamError{Field: "offset", Value: offset, Reason: "negative"})
	}
	inPage := int(offset % int64(os.Getpagesize())) // mmap(2) needs a multiple of the page size.
	mapped, err := mapFile(fd, offset-int64(inPage), inPage+length, access&verbs.AccessLocalWrite != 0)
	if err != nil {
		return nil, operr.Wrap(op, err)
	}
	r := newRegion(e, mapped[inPage:inPage+length:inPage+length], access)
	r.mapped, r.mayFault = mapped, true
	if err := e.addRegion(r); err != nil {
		return nil, operr.Wrap(op, err)
	}
	return r, nil
}
