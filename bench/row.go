package main

import (
	"context"
	"time"
)

// A Case is one thing to measure.
type Case struct {
	Peer        string `json:"peer"`     // who carries the messages: rdmaloop, gnet, ...
	Path        string `json:"path"`     // local, wire, device, tcp, udp, memory
	Mode        string `json:"mode"`     // how it waits: event, adaptive, busy
	Workload    string `json:"workload"` // pingpong, stream, read, write, conns-idle, conns-active, connect, idle
	Size        int    `json:"size"`     // bytes of a message
	InFlight    int    `json:"inflight"`
	Connections int    `json:"connections"`

	For time.Duration `json:"-"` // how long to measure, after warming up
}

// A Row is what was measured of a Case. A figure that the peer can not tell, or
// that its workload does not have, is zero and left out of the JSON.
type Row struct {
	Case

	P50  float64 `json:"p50_ns"` // of the round trip, or of what the workload does instead
	P99  float64 `json:"p99_ns"`
	P999 float64 `json:"p999_ns"`
	Max  float64 `json:"max_ns"`

	MsgsPerSec  float64 `json:"msgs_per_sec"` // answered messages, or connections for the workload connect
	BytesPerSec float64 `json:"bytes_per_sec"`

	// Of both processes together, and for each message there and back.
	CPU         float64 `json:"cpu_ns_per_msg,omitempty"`
	Allocs      float64 `json:"allocs_per_msg,omitempty"`
	CtxSwitches float64 `json:"ctx_switches_per_msg,omitempty"`

	RSSPerConn float64 `json:"rss_bytes_per_conn,omitempty"` // both ends

	// How many times the p50 of the other, in the same run; for workloads of
	// rate how many times its rate. Zero, and left out, without one to compare.
	RatioToGnet  float64 `json:"ratio_to_gnet,omitempty"`
	RatioToFloor float64 `json:"ratio_to_floor,omitempty"`
}

// A runner measures cases of one peer.
type runner interface {
	// Name is what -peers calls it.
	Name() string
	// Missing is why the peer can not run on this machine and how to install
	// it, and nil when it can.
	Missing() error
	// Cases lists what it can measure of what was asked for.
	Cases(o options) []Case
	// Run measures one of its cases, once. It ends early, with what it has or
	// an error, when ctx does.
	Run(ctx context.Context, c Case) (Row, error)
}
