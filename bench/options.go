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

// maxSize is the largest message size in bytes. Arbitrary.
const maxSize = 1 << 20

// options are the values of the flags.
type options struct {
	// Variants to measure, each as peer, peer/path or peer/path/mode. An empty list
	// means all.
	peers []string
	// Names of the workloads. An empty list means all.
	workloads []string
	// Message sizes in bytes. An empty list means the usual sizes of each workload.
	sizes []int
	// True for a short run with fewer cases.
	quick bool
	// True for a run that measures the goals in pairs.
	pairs bool
	// True for a run that measures what README.md shows, and prints its table.
	readme   bool
	duration time.Duration
	// How often each case is measured.
	rounds int
	// Name of the JSON file, or "-" for the standard output.
	json string
	// Directory for the plots.
	plots string
	// JSON file of an earlier run to compare with.
	compare string
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard) // The caller of parse prints the error.
	f.Func("peers", "`list` of what to measure, as rdmaloop/local,gnet: peer, peer/path or peer/path/mode", func(text string) error {
		o.peers = strings.Split(text, ",")
		return nil
	})
	f.Func("workloads", "`list` of workloads: "+strings.Join(workloads(), ", "), o.setWorkloads)
	f.Func("sizes", "`list` of message sizes in bytes, 8 at least", o.setSizes)
	f.BoolVar(&o.quick, "quick", false, "measure fewer cases, and each for a shorter time: less than a minute")
	f.BoolVar(&o.pairs, "pairs", false, "measure the goals of this library, each beside its peer, and print the ratios")
	f.BoolVar(&o.readme, "readme", false, "measure what README.md of the library shows, and print its table; with -plots, also its plots")
	f.StringVar(&o.compare, "compare", "", "print what is better or worse than in this `file`, which an earlier run with -json has written")
	f.DurationVar(&o.duration, "duration", 0, "how long to measure each case in each round (500ms; quick: 60ms; pairs and readme: 120ms)")
	f.IntVar(&o.rounds, "rounds", 0, "how often to measure each case; the median is reported (3; quick: 1; pairs: 9; readme: 25)")
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

// withDefaults returns the options with defaults for zero fields.
func (o options) withDefaults() (options, error) {
	if o.duration < 0 || o.rounds < 0 {
		return o, errors.New("-duration and -rounds must not be negative")
	}
	if o.pairs && (o.quick || o.plots != "") {
		return o, errors.New("-pairs excludes -quick and -plots")
	}
	if o.readme {
		if o.pairs || o.quick {
			return o, errors.New("-readme excludes -pairs and -quick")
		}
		return o.forReadme(), nil
	}
	duration, rounds := 500*time.Millisecond, 3
	if o.quick {
		duration, rounds = 60*time.Millisecond, 1
	}
	if o.pairs {
		duration, rounds = pairDuration, pairRounds
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

// wantsPeer reports whether at least one variant of a peer is to be measured.
func (o options) wantsPeer(name string) bool {
	return len(o.peers) == 0 || slices.ContainsFunc(o.peers, func(asked string) bool {
		first, _, _ := strings.Cut(asked, "/")
		return first == name
	})
}

// wantsCase reports whether a case is to be measured.
func (o options) wantsCase(c Case) bool {
	whole := c.Peer + "/" + c.Path + "/" + c.Mode + "/"
	return o.wants(c.Workload) && (len(o.peers) == 0 || slices.ContainsFunc(o.peers, func(asked string) bool {
		return strings.HasPrefix(whole, asked+"/")
	}))
}

// sizesOr returns the sizes that the user has requested. Otherwise a quick run has
// smallSize, and other runs have the usual sizes.
func (o options) sizesOr(usual ...int) []int {
	switch {
	case len(o.sizes) > 0:
		return o.sizes
	case o.quick:
		return []int{smallSize}
	}
	return usual
}
