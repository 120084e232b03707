package main

import (
	"context"
	"time"
)

// A Case is one measurement: a workload with its parameters, and the peer that runs it.
type Case struct {
	Peer        string `json:"peer"`     // Library or lower bound: rdmaloop, gnet, ...
	Path        string `json:"path"`     // One of local, wire, device, tcp, udp, memory and posix.
	Mode        string `json:"mode"`     // How programs wait: event, adaptive, busy.
	Workload    string `json:"workload"` // One of the names that workloads returns.
	Size        int    `json:"size"`     // Message size in bytes.
	InFlight    int    `json:"inflight"`
	Connections int    `json:"connections"`

	For time.Duration `json:"-"` // Duration of the measurement after the warm-up.
}

// A Row is the result of a Case. A figure that the peer cannot report, or that does not
// apply to the workload, is zero and left out of the JSON.
type Row struct {
	Case

	P50  float64 `json:"p50_ns"` // Time of a round trip, or of the workload's other operation.
	P99  float64 `json:"p99_ns"`
	P999 float64 `json:"p999_ns"`
	Max  float64 `json:"max_ns"`

	MsgsPerSec  float64 `json:"msgs_per_sec"` // Answered messages, or connections in the workload connect.
	BytesPerSec float64 `json:"bytes_per_sec"`

	// CPU, Allocs and CtxSwitches are sums of both processes, per round trip.
	CPU         float64 `json:"cpu_ns_per_msg,omitempty"`
	Allocs      float64 `json:"allocs_per_msg,omitempty"`
	CtxSwitches float64 `json:"ctx_switches_per_msg,omitempty"`

	RSSPerConn float64 `json:"rss_bytes_per_conn,omitempty"` // Bytes of both ends.

	// The p50 as a multiple of the other peer's p50 in the same run. For workloads that
	// measure a rate, the rate as a multiple of its rate. Zero, and left out, without a
	// row to compare with.
	RatioToGnet  float64 `json:"ratio_to_gnet,omitempty"`
	RatioToFloor float64 `json:"ratio_to_floor,omitempty"`
}

// A runner measures cases of one peer.
type runner interface {
	// Name returns the name that -peers uses.
	Name() string
	// Missing returns why the peer cannot run on this machine and how to install it, or
	// nil.
	Missing() error
	// Cases lists the requested cases that it can measure.
	Cases(o options) []Case
	// Run measures one of its cases once. If ctx ends, it returns early with a partial
	// row or an error.
	Run(ctx context.Context, c Case) (Row, error)
}
