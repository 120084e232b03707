package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rdmaloop/rdmaloop/provider/soft"
)

// options has the checked values of the flags.
type options struct {
	listen         string
	files          []string
	size           int64 // size of the disk in bytes; 0 means the size of the file
	block          int
	readOnly       bool
	capsuleData    bool
	nqn            string
	hosts          []string
	provider       string
	path           soft.Path
	loops, workers int
	duration       time.Duration
	untilEOF       bool
}

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	f := flag.NewFlagSet("nvmeof", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller prints the error
	f.StringVar(&o.listen, "listen", "", "serve disks at this `host:port`; hosts expect port 4420")
	f.Func("file", "`file` or block device of a disk; several flags make several disks", appendTo(&o.files))
	f.Func("size", "create missing files with this `size`, such as 64M or 10G", func(text string) (err error) {
		o.size, err = parseSize(text)
		return err
	})
	f.IntVar(&o.block, "block", 4096, "`bytes` of a block: 512 or 4096")
	f.BoolVar(&o.readOnly, "read-only", false, "refuse all writes")
	f.BoolVar(&o.capsuleData, "capsule-data", true, "let hosts send small writes in their capsules")
	f.StringVar(&o.nqn, "nqn", "nqn.2026-11.io.github.rdmaloop:disk", "`name` of the subsystem")
	f.Func("host", "`NQN` of a host that may connect; several flags allow several hosts. Default: every host", appendTo(&o.hosts))
	f.StringVar(&o.provider, "provider", "auto", "auto, soft or rdmacore")
	f.TextVar(&o.path, "path", soft.PathAuto, "path of the soft device: auto, local or wire")
	f.IntVar(&o.loops, "loops", 1, "event loops")
	f.IntVar(&o.workers, "workers", 16, "goroutines that use the disks")
	f.DurationVar(&o.duration, "duration", time.Second, "demonstration: time to measure each operation")
	f.BoolVar(&o.untilEOF, "until-eof", false, "stop at the end of standard input instead of at Ctrl-C")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stderr)
		f.Usage()
	}
	if err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return &o, o.check()
}

// appendTo returns a function for FlagSet.Func that collects the values of a flag.
func appendTo(list *[]string) func(string) error {
	return func(text string) error {
		*list = append(*list, text)
		return nil
	}
}

func (o *options) check() error {
	switch {
	case o.listen != "" && len(o.files) == 0:
		return errors.New("-listen needs -file")
	case o.listen == "" && len(o.files) > 0:
		return errors.New("-file needs -listen")
	case o.loops < 1 || o.loops > 1<<10:
		return fmt.Errorf("-loops %d: must be 1 to 1024", o.loops)
	case o.duration <= 0:
		return fmt.Errorf("-duration %v: must be positive", o.duration)
	case o.workers < 1 || o.workers > 1<<12:
		return fmt.Errorf("-workers %d: must be 1 to 4096", o.workers)
	}
	return nil
}

// parseSize parses a number of bytes, with an optional unit of 1024 or its powers.
func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "KMGT")
	unit := int64(1)
	if suffix := text[len(digits):]; suffix != "" {
		if len(suffix) > 1 {
			return 0, fmt.Errorf("%q has more than one unit", text)
		}
		unit = 1 << (10 * (1 + strings.Index("KMGT", suffix)))
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	return n * unit, nil
}
