package metrics

import (
	"expvar"
	"strconv"

	"github.com/rdmaloop/rdmaloop/reactor"
)

// Expvar returns a variable for expvar.Publish: the counters of the loops of an engine, in
// the order of their indexes, and of the devices of its provider, by device and port:
//
//	{"loops": [{"turns": 5, ...}], "devices": {"soft0": {"1": {"sent_pkts": 2, ...}}}}
//
// Names, values and units are those of reactor.Stats.All and verbs.Device.Counters. A device
// whose counters can not be read is left out. Without an engine the variable is null. Any goroutine may call Expvar and the variable.
func Expvar(e *reactor.Engine) expvar.Func {
	return func() any {
		if e == nil {
			return nil
		}
		out := variable{Devices: make(map[string]map[string]counters)}
		for i := range e.NumLoops() {
			stats, loop := e.Loop(i).Stats(), make(counters)
			for k := range stats.All() {
				loop[k.Name] = k.Value
			}
			out.Loops = append(out.Loops, loop)
		}
		devices, _ := e.Provider().Devices()
		for _, dev := range devices {
			for i := range dev.Attr().NumPorts {
				list, err := dev.Counters(uint8(i + 1))
				if err != nil {
					continue
				}
				if out.Devices[dev.Name()] == nil {
					out.Devices[dev.Name()] = make(map[string]counters)
				}
				port := make(counters)
				for _, k := range list {
					port[k.Name] = k.Value
				}
				out.Devices[dev.Name()][strconv.Itoa(i+1)] = port
			}
		}
		return out
	}
}

// A variable is the value of Expvar.
type variable struct {
	Loops   []counters                     `json:"loops"`
	Devices map[string]map[string]counters `json:"devices"` // by name and port
}

// counters are values by the names of the counters.
type counters map[string]uint64
