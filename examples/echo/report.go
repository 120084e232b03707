package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rdmaloop/rdmaloop/cm"
)

// A report is the result of the client. The flag -json prints it.
type report struct {
	Provider string `json:"provider"`
	Path     string `json:"path"`
	Mode     string `json:"mode"`
	Size     int    `json:"size"`  // bytes in a message
	Count    int    `json:"count"` // round trips that were measured
	// number of connections that the user has requested
	Connections int `json:"connections"`
	Loops       int `json:"loops"`
	InFlight    int `json:"inflight"`

	Errors  int `json:"errors"` // sum of Lost, Damaged and Failed
	Lost    int `json:"lost"`
	Damaged int `json:"damaged"`
	Failed  int `json:"failed"` // connections that failed

	P50  int64 `json:"p50_ns"`
	P90  int64 `json:"p90_ns"`
	P99  int64 `json:"p99_ns"`
	P999 int64 `json:"p999_ns"`
	Max  int64 `json:"max_ns"`

	StreamMsgs    int     `json:"stream_msgs"`
	StreamSeconds float64 `json:"stream_seconds"`
	StreamRate    float64 `json:"stream_msgs_per_sec"`

	// Private data of the server's answer.
	PrivateData string `json:"private_data,omitempty"`
	// Growth of each device counter during the run, by name.
	Counters    deviceCounters `json:"counters,omitempty"`
	Interrupted bool           `json:"interrupted,omitempty"`
	Rejected    *rejection     `json:"rejected,omitempty"`

	times *hdrhistogram.Histogram
	cause error // error of the first connection that failed
}

// A rejection describes how the server rejected a connection.
type rejection struct {
	Reason      string `json:"reason"`
	PrivateData string `json:"private_data"`
}

func newReport(opts *options, provider string, server netip.Addr, results []*loopResult, streamed time.Duration) *report {
	r := &report{
		Provider:    provider,
		Path:        pathOf(provider, opts.path, server),
		Mode:        opts.mode,
		Size:        opts.size,
		Connections: opts.conns,
		Loops:       opts.loops,
		InFlight:    opts.inflight,
		times:       results[0].times,
	}
	for i, result := range results {
		if i > 0 {
			r.times.Merge(result.times)
		}
		r.StreamMsgs += result.streamed
		r.Lost += result.lost
		r.Damaged += result.damaged
		r.Failed += result.failed
		if r.cause == nil {
			r.cause = result.cause
		}
		if r.PrivateData == "" {
			r.PrivateData = string(result.privateData)
		}
	}
	r.Errors = r.Lost + r.Damaged + r.Failed
	r.Count = int(r.times.TotalCount())
	r.P50 = r.times.ValueAtPercentile(50)
	r.P90 = r.times.ValueAtPercentile(90)
	r.P99 = r.times.ValueAtPercentile(99)
	r.P999 = r.times.ValueAtPercentile(99.9)
	r.Max = r.times.Max()
	if streamed > 0 {
		r.StreamSeconds = streamed.Seconds()
		r.StreamRate = float64(r.StreamMsgs) / r.StreamSeconds
	}
	var refused *cm.RejectError
	if errors.As(r.cause, &refused) && refused.ByApplication {
		// Some devices append zero bytes to private data (rdma_accept(3)).
		text := bytes.TrimRight(refused.PrivateData, "\x00")
		r.Rejected = &rejection{Reason: refused.Reason.String(), PrivateData: string(text)}
	}
	return r
}

// pathOf returns the name of the path to the server. A hardware device has only one path.
func pathOf(provider, path string, server netip.Addr) string {
	switch {
	case provider != "soft":
		return "device"
	case path == "auto" && onThisHost(server):
		return "local"
	case path == "auto":
		return "wire"
	}
	return path
}

// onThisHost reports whether an address belongs to this host.
func onThisHost(server netip.Addr) bool {
	// If the host's addresses are unknown, the server counts as remote.
	addrs, _ := net.InterfaceAddrs()
	return server.IsLoopback() || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == server.Unmap()
	})
}

// print writes the report to stdout and errors to stderr.
func (r *report) print(asJSON bool, stdout, stderr io.Writer) (status int, err error) {
	switch {
	case asJSON:
		err = json.NewEncoder(stdout).Encode(r)
	case r.Rejected == nil:
		_, err = io.WriteString(stdout, r.table())
	}
	switch {
	case r.Rejected != nil:
		fmt.Fprintf(stderr, "echo: rejected: %s; private data: %q\n", r.Rejected.Reason, r.Rejected.PrivateData)
		return exitRejected, err
	case r.Errors > 0:
		fmt.Fprintf(stderr, "echo: %d messages lost, %d damaged, %d connections failed\n", r.Lost, r.Damaged, r.Failed)
		if r.cause != nil {
			fmt.Fprintln(stderr, "echo:", r.cause)
		}
		return exitFailed, err
	}
	return exitOK, err
}

// table returns the results as text. Phases that did not run are left out.
func (r *report) table() string {
	var b bytes.Buffer
	if r.Count > 0 || r.StreamMsgs > 0 {
		fmt.Fprintf(&b, "%s device, %s path, %s loops: %d, connections: %d\n", r.Provider, r.Path, r.Mode, r.Loops, r.Connections)
		if r.PrivateData != "" {
			fmt.Fprintf(&b, "private data from the server: %q\n", r.PrivateData)
		}
	}
	if r.Count > 0 {
		r.percentiles(&b)
	}
	if r.StreamMsgs > 0 {
		fmt.Fprintf(&b, "\nstreaming, %d in flight on each connection, %.1f s\n", r.InFlight, r.StreamSeconds)
		fmt.Fprintf(&b, "  %-12s %12.0f\n", "messages/s", r.StreamRate)
	}
	if trouble := r.Counters.errorCounters(); trouble != "" {
		fmt.Fprintf(&b, "\ndevice: %s\n", trouble)
	}
	if r.Interrupted {
		fmt.Fprintf(&b, "\ninterrupted after %d messages\n", r.Count+r.StreamMsgs)
	}
	return b.String()
}

func (r *report) percentiles(w io.Writer) {
	fmt.Fprintf(w, "\nping-pong, %d messages of %d bytes\n", r.Count, r.Size)
	for _, row := range []struct {
		name string
		ns   int64
	}{
		{"p50", r.P50}, {"p90", r.P90}, {"p99", r.P99}, {"p99.9", r.P999}, {"max", r.Max},
	} {
		fmt.Fprintf(w, "  %-12s %12s µs\n", row.name, micros(row.ns))
	}
	fmt.Fprintf(w, "\n%s", chart(r.times))
}

func micros(ns int64) string { return fmt.Sprintf("%.2f", float64(ns)/1e3) }
