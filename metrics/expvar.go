package metrics

import (
	"expvar"

	"github.com/rdmaloop/rdmaloop/monitor"
	"github.com/rdmaloop/rdmaloop/reactor"
)

// Expvar returns a variable for expvar.Publish: the counters of the loops of an engine, in
// the order of their indexes, and of the devices of its provider, as monitor.Take returns
// them:
//
//	{"loops": [{"name": "loop 0", "counters": {"turns": 5, ...}}],
//	 "devices": [{"name": "soft0", "port": 1, "counters": {"sent_pkts": 2, ...}}], ...}
//
// Without an engine the variable is null. Any goroutine may call Expvar and the variable.
func Expvar(e *reactor.Engine) expvar.Func {
	return func() any {
		if e == nil {
			return nil
		}
		return monitor.Take(e)
	}
}
