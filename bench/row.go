package main

import (
	"context"
	"time"
)

// A Case is one measurement: a workload with its parameters, and the peer that runs it.
type Case struct {
	// Name of the library that was measured, or of the program if it uses no library.
	Peer string `json:"peer"`
	Path string `json:"path"` // One of local, wire, device, tcp, udp, memory, posix and posix-tag.
	// How the programs wait for messages: event, adaptive or busy.
	Mode        string `json:"mode"`
	Workload    string `json:"workload"` // One of the names that workloads() returns.
	Size        int    `json:"size"`     // Message size in bytes.
	InFlight    int    `json:"inflight"`
	Connections int    `json:"connections"`
	// Number of the server's loops in workLoops. Zero in other workloads, where it is 1.
	Loops int `json:"loops,omitempty"`

	For time.Duration `json:"-"` // Duration of the measurement after the warm-up.
}

// A Row is the result of a Case. A figure that is not available is zero and left out of
// the JSON.
type Row struct {
	Case

	// P50, P99, P999 and Max are times in nanoseconds of one round trip or one other
	// operation, for example a READ.
	P50  float64 `json:"p50_ns"`
	P99  float64 `json:"p99_ns"`
	P999 float64 `json:"p999_ns"`
	Max  float64 `json:"max_ns"`

	// Rate of answered messages. In workConnect it is the rate of connections.
	MsgsPerSec  float64 `json:"msgs_per_sec"`
	BytesPerSec float64 `json:"bytes_per_sec"`

	// CPU nanoseconds, heap allocations and context switches of both processes for each
	// answered message.
	CPU         float64 `json:"cpu_ns_per_msg,omitempty"`
	Allocs      float64 `json:"allocs_per_msg,omitempty"`
	CtxSwitches float64 `json:"ctx_switches_per_msg,omitempty"`

	// Growth of the resident memory in bytes for each connection, for both processes
	// together. It includes the opening of the connections and the warm-up.
	RSSPerConn float64 `json:"rss_bytes_per_conn,omitempty"`

	// Time in nanoseconds of a round trip of a cache line, just before and just after the
	// measurement. On a virtual machine it can change within seconds.
	CacheLineBefore float64 `json:"cache_line_before_ns,omitempty"`
	CacheLineAfter  float64 `json:"cache_line_after_ns,omitempty"`

	// Rounds has the figure of each round that -compare compares: the P50, or MsgsPerSec
	// if single messages are not timed.
	Rounds []float64 `json:"rounds,omitempty"`

	// Scaling is the rate divided by the rate with one loop and by the number of loops.
	// Zero means that there is no such row.
	Scaling float64 `json:"scaling,omitempty"`

	// RatioToGnet is the result of ratio() for this row and the row of gnet. RatioToFloor
	// is the result for this row and the row of the peer that floorOf names. Zero means
	// that there is no such row.
	RatioToGnet  float64 `json:"ratio_to_gnet,omitempty"`
	RatioToFloor float64 `json:"ratio_to_floor,omitempty"`
}

// figure returns the P50, or the rate if single messages are not timed.
func (r Row) figure() float64 {
	if r.P50 > 0 {
		return r.P50
	}
	return r.MsgsPerSec
}

// A runner measures cases of one peer.
type runner interface {
	// Name returns the name of the peer for the flag -peers.
	Name() string
	// Missing returns nil if the peer can run here. Otherwise the error gives the
	// reason.
	Missing() error
	// Cases lists the requested cases that the runner can measure.
	Cases(o options) []Case
	// Run measures one of the cases once. If ctx ends, it returns early with a partial
	// row or an error.
	Run(ctx context.Context, c Case) (Row, error)
}
