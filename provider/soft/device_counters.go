//go:build linux

package soft

import (
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/counters"
	"github.com/rdmaloop/rdmaloop/provider/soft/internal/qp"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Counters implements verbs.CounterReader. It also works after Close.
func (d *device) Counters(port uint8) ([]verbs.Counter, error) {
	if err := qp.CheckPort(port); err != nil {
		return nil, operr.Wrap("read counters", err)
	}
	d.mu.Lock()
	// allCounts is only appended to, so its elements can be read without mu.
	all := d.allCounts
	d.mu.Unlock()
	list := counters.Sum(all)
	list[counters.RcvdOverrunErr].Value = d.udp.Overruns()
	return list, nil
}

var _ verbs.CounterReader = (*device)(nil)
