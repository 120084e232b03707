package latency

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/reactor"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Settings describes a measurement with a ping-pong and a stream of messages.
type Settings struct {
	Provider    string             `json:"provider"` // name of the RDMA provider
	Path        string             `json:"path"`     // local, wire or device
	Mode        reactor.IdlePolicy `json:"mode"`
	Size        int                `json:"size"`  // bytes in a message
	Count       int                `json:"count"` // round trips of the ping-pong
	Connections int                `json:"connections"`
	Loops       int                `json:"loops"`
	InFlight    int                `json:"inflight"` // messages in flight on each connection, in the stream
}

// A Report is the result of a measurement. As JSON it is one object.
type Report struct {
	Settings

	Errors  int `json:"errors"`  // sum of Lost, Damaged and Failed
	Lost    int `json:"lost"`    // messages without an echo
	Damaged int `json:"damaged"` // echoes that differ from their message
	Failed  int `json:"failed"`  // connections that did not open, or closed too early

	Percentiles // of the round trips

	StreamMsgs    int     `json:"stream_msgs"`
	StreamSeconds float64 `json:"stream_seconds"`
	StreamRate    float64 `json:"stream_msgs_per_sec"`

	PrivateData string     `json:"private_data,omitempty"` // of the server's answer
	Counters    Counters   `json:"counters,omitempty"`     // growth of the device's counters
	Interrupted bool       `json:"interrupted,omitempty"`
	Rejected    *Rejection `json:"rejected,omitempty"`
	Cause       error      `json:"-"` // why the first connection has failed

	times Histogram
}

// A Rejection describes how the server rejected a connection.
type Rejection struct {
	Reason      string `json:"reason"`
	PrivateData string `json:"private_data"`
}

// Complete fills in the fields that follow from the times of the round trips on each
// loop, from the duration of the stream, and from the other fields.
func (r *Report) Complete(times []Histogram, streamed time.Duration) {
	r.times = New()
	for _, t := range times {
		r.times.Merge(t.Histogram)
	}
	r.Count, r.Percentiles = int(r.times.TotalCount()), r.times.Percentiles()
	r.Errors = r.Lost + r.Damaged + r.Failed
	if r.StreamSeconds = streamed.Seconds(); streamed > 0 {
		r.StreamRate = float64(r.StreamMsgs) / r.StreamSeconds
	}
	var refused *cm.RejectError
	if errors.As(r.Cause, &refused) && refused.ByApplication {
		r.Rejected = &Rejection{Reason: refused.Reason.String(), PrivateData: refused.Text()}
	}
}

// PathTo returns the name of the path to a server, which the report has in its field
// Path. A hardware device has only one path.
func PathTo(server netip.Addr, provider string, path soft.Path) string {
	if provider != "soft" {
		return "device"
	}
	if path != soft.PathAuto {
		return path.String()
	}
	addrs, _ := net.InterfaceAddrs() // if they are unknown, the server counts as remote
	if server.IsLoopback() || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		host, ok := a.(*net.IPNet)
		return ok && host.IP.Equal(server.AsSlice())
	}) {
		return "local"
	}
	return "wire"
}

// Exit statuses of a program that prints a report.
const (
	ExitOK       = 0 // no message was lost or damaged
	ExitFailed   = 1
	ExitRejected = 2 // the server rejected a connection
)

// Print prints the report to stdout, as JSON or as text, and what went wrong to stderr,
// in lines that begin with the name of the program. It returns the exit status.
func (r *Report) Print(program string, asJSON bool, stdout, stderr io.Writer) (status int, err error) {
	switch {
	case asJSON:
		err = json.NewEncoder(stdout).Encode(r)
	case r.Rejected == nil:
		_, err = io.WriteString(stdout, r.Table())
	}
	switch {
	case r.Rejected != nil:
		fmt.Fprintf(stderr, "%s: rejected: %s; private data: %q\n", program, r.Rejected.Reason, r.Rejected.PrivateData)
		return ExitRejected, err
	case r.Errors > 0:
		fmt.Fprintf(stderr, "%s: %d messages lost, %d damaged, %d connections failed\n", program, r.Lost, r.Damaged, r.Failed)
		if r.Cause != nil {
			fmt.Fprintf(stderr, "%s: %v\n", program, r.Cause)
		}
		return ExitFailed, err
	}
	return ExitOK, err
}

// Table returns the results as text. What was not measured is left out.
func (r *Report) Table() string {
	var b strings.Builder
	if r.Count > 0 || r.StreamMsgs > 0 {
		fmt.Fprintf(&b, "%s device, %s path, %s loops: %d, connections: %d\n", r.Provider, r.Path, r.Mode, r.Loops, r.Connections)
		if r.PrivateData != "" {
			fmt.Fprintf(&b, "private data from the server: %q\n", r.PrivateData)
		}
	}
	if r.Count > 0 {
		fmt.Fprintf(&b, "\nping-pong, %d messages of %d bytes\n%v\n%s", r.Count, r.Size, r.Percentiles, r.times.Chart())
	}
	if r.StreamMsgs > 0 {
		fmt.Fprintf(&b, "\nstreaming, %d in flight on each connection, %.1f s\n", r.InFlight, r.StreamSeconds)
		fmt.Fprintf(&b, "  %-12s %12.0f\n", "messages/s", r.StreamRate)
	}
	if trouble := r.Counters.Errors(); trouble != "" {
		fmt.Fprintf(&b, "\ndevice: %s\n", trouble)
	}
	if r.Interrupted {
		fmt.Fprintf(&b, "\ninterrupted after %d messages\n", r.Count+r.StreamMsgs)
	}
	return b.String()
}

// PrintServed prints to stdout which device a server uses, and the addresses at which clients
// can reach it. Addresses that clients can not reach go to stderr, with their errors.
func PrintServed(program string, p cm.Provider, served []cm.ServedAddr, stdout, stderr io.Writer) {
	kind := "an RDMA device of the kernel"
	if p.Name() == "soft" {
		kind = "the device in software"
	}
	for _, name := range devicesOf(p, served) {
		fmt.Fprintf(stdout, "uses %s, %s\n", name, kind)
	}
	for _, s := range served {
		path := "device"
		if s.Path != "" {
			path = s.Path + " path"
		}
		if s.Err != nil {
			fmt.Fprintf(stderr, "%s: not reached by the %s at %v: %v\n", program, path, s.Addr, s.Err)
		} else {
			fmt.Fprintf(stdout, "reached by the %s at %v\n", path, s.Addr)
		}
	}
}

// devicesOf returns the name of the device that has an address of a server. If the server has
// all addresses, or no device is found by its address, they are the names of all devices.
func devicesOf(p cm.Provider, served []cm.ServedAddr) (all []string) {
	devices, _ := p.Devices() // A server whose provider can not list them has failed before.
	for _, dev := range devices {
		for num := range dev.Attr().NumPorts {
			port, _ := dev.Port(uint8(num + 1)) // After an error the port has no address.
			if slices.ContainsFunc(served, func(s cm.ServedAddr) bool {
				at := s.Addr.Addr()
				return !at.IsUnspecified() && slices.Contains(port.GIDs, verbs.GIDFromAddr(at))
			}) {
				return []string{dev.Name()}
			}
		}
		all = append(all, dev.Name())
	}
	return all
}
