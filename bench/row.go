package main

import (
	"context"
	"time"
)

// A Case is one measurement: a workload, its parameters, and the peer that runs it.
type Case struct {
	// Name of the measured library or program.
	Peer string `json:"peer"`
	Path string `json:"path"` // Transport: local, wire, device, tcp, udp, memory, posix or posix-tag.
	// How the programs wait for messages: event, adaptive or busy.
	Mode        string `json:"mode"`
	Workload    string `json:"workload"` // One of the names that workloads() returns.
	Size        int    `json:"size"`     // Message size in bytes.
	InFlight    int    `json:"inflight"`
	Connections int    `json:"connections"`
	// Loops of the server in workLoops. Zero in other workloads.
	Loops int `json:"loops,omitempty"`

	For time.Duration `json:"-"` // Duration of the measurement after the warm-up.
}

// A Row is the result of a Case. A figure that is not known is zero.
type Row struct {
	Case

	// Times in nanoseconds of a round trip, or of another operation such as a READ.
	P50  float64 `json:"p50_ns"`
	P99  float64 `json:"p99_ns"`
	P999 float64 `json:"p999_ns"`
	Max  float64 `json:"max_ns"`

	// Number of answered messages a second, and their bytes. In workConnect each
	// connection carries one message.
	MsgsPerSec  float64 `json:"msgs_per_sec"`
	BytesPerSec float64 `json:"bytes_per_sec"`

	// Resources that both processes use for each answered message. CPU is in
	// nanoseconds. Allocs counts objects on the Go heap.
	CPU         float64 `json:"cpu_ns_per_msg,omitempty"`
	Allocs      float64 `json:"allocs_per_msg,omitempty"`
	CtxSwitches float64 `json:"ctx_switches_per_msg,omitempty"`

	// Growth of the resident memory of both processes, in bytes for each connection. It
	// includes the warm-up.
	RSSPerConn float64 `json:"rss_bytes_per_conn,omitempty"`

	// Round trip of a cache line in nanoseconds, just before and after the measurement.
	// On a virtual machine it can change within seconds.
	CacheLineBefore float64 `json:"cache_line_before_ns,omitempty"`
	CacheLineAfter  float64 `json:"cache_line_after_ns,omitempty"`

	// The state of the processors in the rounds of which this row is the median, and the
	// number of these rounds. Mixed means that no round of this case met the state of most
	// others, and that the row is the median of all its rounds.
	State       string `json:"state,omitempty"`
	StateRounds int    `json:"state_rounds,omitempty"`

	// The P50 of each round, or MsgsPerSec if messages are not timed. The flag -compare
	// compares these figures.
	Rounds []float64 `json:"rounds,omitempty"`

	// Scaling is the rate for each loop, divided by the rate with one loop. Zero if
	// there is no row with one loop.
	Scaling float64 `json:"scaling,omitempty"`

	// Ratios of this row to the row of gnet, and to the row of the peer that floorOf names.
	// Zero if there is no such row, or if the processors were in another state there.
	RatioToGnet  float64 `json:"ratio_to_gnet,omitempty"`
	RatioToFloor float64 `json:"ratio_to_floor,omitempty"`
}

// figure returns the P50, or the rate if messages are not timed.
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
	// Missing returns an error with the reason if the peer can not run here.
	Missing() error
	// Cases returns the requested cases that the runner can measure.
	Cases(o options) []Case
	// Run measures a case once. If ctx ends, Run returns early with an incomplete row or
	// an error.
	Run(ctx context.Context, c Case) (Row, error)
}
