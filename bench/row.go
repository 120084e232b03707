package main

import (
	"context"
	"time"
)

// A Case is one measurement: a workload with its parameters, and the peer that runs it.
type Case struct {
	// Name of a library, for example rdmaloop or gnet, or of a program that uses no
	// library, for example rawudp.
	Peer string `json:"peer"`
	Path string `json:"path"` // One of local, wire, device, tcp, udp, memory, posix and posix-tag.
	// How the programs wait for messages: event, adaptive or busy.
	Mode        string `json:"mode"`
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

	// P50, P99, P999 and Max describe the distribution of times in nanoseconds. A time
	// is the time of one round trip. In a workload that repeats another operation, for
	// example a READ, it is the time of that operation.
	P50  float64 `json:"p50_ns"`
	P99  float64 `json:"p99_ns"`
	P999 float64 `json:"p999_ns"`
	Max  float64 `json:"max_ns"`

	// Rate of answered messages. In workConnect it is the rate of connections.
	MsgsPerSec  float64 `json:"msgs_per_sec"`
	BytesPerSec float64 `json:"bytes_per_sec"`

	// CPU, Allocs and CtxSwitches are the use of resources for each answered message:
	// the CPU time in nanoseconds, the number of heap allocations, and the number of
	// context switches. Each is the sum over both processes, divided by the number of
	// answered messages.
	CPU         float64 `json:"cpu_ns_per_msg,omitempty"`
	Allocs      float64 `json:"allocs_per_msg,omitempty"`
	CtxSwitches float64 `json:"ctx_switches_per_msg,omitempty"`

	// Growth of the resident memory from the moment before the client connects until the
	// end of the warm-up. It is the sum over both processes in bytes, divided by the
	// number of connections.
	RSSPerConn float64 `json:"rss_bytes_per_conn,omitempty"`

	// RatioToGnet and RatioToFloor compare the row with the row of another peer in the
	// same run. For RatioToGnet this peer is gnet. For RatioToFloor it is the peer that
	// shows the shortest possible time of the path: see floorOf. A ratio is the p50 of
	// this row divided by the p50 of the other row, or the quotient of the two rates if
	// the workload measures only a rate. If there is no row to compare with, the ratio
	// is zero and is left out of the JSON.
	RatioToGnet  float64 `json:"ratio_to_gnet,omitempty"`
	RatioToFloor float64 `json:"ratio_to_floor,omitempty"`
}

// A runner measures cases of one peer.
type runner interface {
	// Name returns the name of the peer, by which the flag -peers selects it.
	Name() string
	// Missing returns nil if the peer can run on this machine. Otherwise the error says
	// why it cannot run and how to install it.
	Missing() error
	// Cases lists those of the requested cases that the runner can measure.
	Cases(o options) []Case
	// Run measures one case once. The case must be a result of Cases. If ctx ends, Run
	// returns early with a partial row or an error.
	Run(ctx context.Context, c Case) (Row, error)
}
