package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSize is the largest message size in bytes that the flag -sizes accepts. Arbitrary.
const maxSize = 1 << 20

// options are the values of the flags.
type options struct {
	// Each text selects variants. It has the form peer, peer/path or peer/path/mode. A
	// text without a path or mode selects all paths or modes of the peer. An empty list
	// selects all variants.
	peers []string
	// Names of the workloads to measure. An empty list selects all workloads.
	workloads []string
	// Message sizes in bytes. With an empty list, each workload uses its own default
	// sizes.
	sizes []int
	// True for a short run, which measures fewer cases and each case for a shorter time.
	quick    bool
	duration time.Duration
	// Number of times that each case is measured.
	rounds int
	// Name of the file to which the rows are written as JSON, or "-" for the standard
	// output.
	json string
	// Directory to which the plots are written.
	plots string
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard) // The flag set prints nothing, because the caller prints the error.
	f.Func("peers", "`list` of what to measure, as rdmaloop/local,gnet: peer, peer/path or peer/path/mode", func(text string) error {
		o.peers = strings.Split(text, ",")
		return nil
	})
	f.Func("workloads", "`list` of workloads: "+strings.Join(workloads(), ", "), o.setWorkloads)
	f.Func("sizes", "`list` of message sizes in bytes, 8 at least", o.setSizes)
	f.BoolVar(&o.quick, "quick", false, "measure fewer cases, and each for a shorter time: less than a minute")
	f.DurationVar(&o.duration, "duration", 0, "how long to measure each case in each round (500ms; quick: 60ms)")
	f.IntVar(&o.rounds, "rounds", 0, "how often to measure each case; the median is reported (3; quick: 1)")
	f.StringVar(&o.plots, "plots", "", "write plots, as SVG, into this `directory`")
	f.StringVar(&o.json, "json", "", "write the rows to this `file`, - for the standard output")
	err = f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stderr)
		f.Usage()
	}
	if err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o.withDefaults()
}

// withDefaults returns a copy of the options in which fields with the value zero have
// their defaults.
func (o options) withDefaults() (options, error) {
	if o.duration < 0 || o.rounds < 0 {
		return o, errors.New("-duration and -rounds must not be negative")
	}
	duration, rounds := 500*time.Millisecond, 3
	if o.quick {
		duration, rounds = 60*time.Millisecond, 1
	}
	if o.duration == 0 {
		o.duration = duration
	}
	if o.rounds == 0 {
		o.rounds = rounds
	}
	return o, nil
}

func (o *options) setWorkloads(text string) error {
	o.workloads = strings.Split(text, ",")
	for _, name := range o.workloads {
		if !slices.Contains(workloads(), name) {
			return fmt.Errorf("the workloads are %s", strings.Join(workloads(), ", "))
		}
	}
	return nil
}

func (o *options) setSizes(text string) error {
	o.sizes = nil
	for part := range strings.SplitSeq(text, ",") {
		size, err := strconv.Atoi(part)
		if err != nil || size < ackSize || size > maxSize {
			return fmt.Errorf("sizes are numbers from %d to %d", ackSize, maxSize)
		}
		o.sizes = append(o.sizes, size)
	}
	return nil
}

// wants reports whether a workload is to be measured.
func (o options) wants(workload string) bool {
	return len(o.workloads) == 0 || slices.Contains(o.workloads, workload)
}

// wantsPeer reports whether a peer, such as gnet, is to be measured on at least one of
// its paths and in at least one of its modes.
func (o options) wantsPeer(name string) bool {
	return len(o.peers) == 0 || slices.ContainsFunc(o.peers, func(asked string) bool {
		first, _, _ := strings.Cut(asked, "/")
		return first == name
	})
}

// wantsCase reports whether both the workload and the variant of a case are to be
// measured.
func (o options) wantsCase(c Case) bool {
	whole := c.Peer + "/" + c.Path + "/" + c.Mode + "/"
	return o.wants(c.Workload) && (len(o.peers) == 0 || slices.ContainsFunc(o.peers, func(asked string) bool {
		return strings.HasPrefix(whole, asked+"/")
	}))
}

// sizesOr returns the message sizes to measure. If the user has requested sizes, these
// are measured. Otherwise a quick run measures only smallSize, and a complete run
// measures the sizes in the parameter usual.
func (o options) sizesOr(usual ...int) []int {
	switch {
	case len(o.sizes) > 0:
		return o.sizes
	case o.quick:
		return []int{smallSize}
	}
	return usual
}
