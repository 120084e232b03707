// Package shout has a handler of gnet that answers each line with the same line in upper
// case.
package shout

import (
	"bytes"

	"github.com/panjf2000/gnet/v2"
)

// maxLine is the length of the longest line in bytes.
const maxLine = 64 << 10

// A Handler is a gnet.EventHandler. It knows nothing of RDMA.
type Handler struct{ gnet.BuiltinEventEngine }

// OnTraffic answers all lines that are complete. The rest stays in the connection until
// more bytes arrive.
func (*Handler) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		b, err := c.Peek(-1)
		if err != nil {
			return gnet.Close
		}
		end := bytes.IndexByte(b, '\n') + 1
		switch {
		case end > 0:
		case len(b) > maxLine:
			return gnet.Close
		default:
			return gnet.None
		}
		if _, err := c.Write(bytes.ToUpper(b[:end])); err != nil {
			return gnet.Close
		}
		if _, err := c.Discard(end); err != nil {
			return gnet.Close
		}
	}
}
