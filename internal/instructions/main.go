// Command instructions counts the instructions of the hot path. TestOperations executes
// the operations of each case, on two loops and their devices. The command runs it under
// callgrind, a tool of valgrind. Other programs of the machine change a time, but not
// this count.
//
//	make instructions OUT=old.txt
//	make instructions BASE=old.txt
//
// The first command saves the count of every function. The second prints the ratio to the
// saved counts, and the functions whose counts have changed most. Both need the same
// processor, the same version of Go and the same version of valgrind.
//
// The Go runtime is not counted, because the work of its scheduler depends on time. The
// column "mem+map" has a part of it, which the operations cause: copying, clearing and
// comparing memory, and maps.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A testCase is a kind of operation that is counted.
type testCase struct{ name, what string }

var cases = []testCase{
	{"local-echo", "round trip of 64 bytes between two loops"},
	{"local-message", "message of 64 bytes in one direction"},
	{"local-stream", "Write of 64 bytes on a Stream of package stream"},
	{"wire-message", "message of 64 bytes in one direction"},
	{"wire-echo", "round trip of 64 bytes between two loops"},
}

// operations is the number of operations of a case that are counted. They fill each ring
// of the local path twice.
const operations = 8192

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) { // The flag package has printed the help.
			fmt.Fprintln(os.Stderr, "instructions:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, out, messages io.Writer) error {
	flags := flag.NewFlagSet("instructions", flag.ContinueOnError)
	flags.SetOutput(messages)
	basePath := flags.String("base", "", "file with the counts to compare with, or empty")
	outPath := flags.String("out", "", "file in which the counts are saved, or empty")
	only := flags.String("case", "", "name of the only case to count; empty means all")
	goCommand := flags.String("go", "go", "the go command")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var base counts
	if *basePath != "" {
		var err error
		if base, err = load(*basePath); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "instructions")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	now, err := countAll(&callgrind{dir: dir, goCommand: *goCommand}, *only, out, base)
	if err != nil {
		return err
	}
	printChanges(out, base, now)
	if *outPath == "" {
		return nil
	}
	return now.save(*outPath)
}

// countAll counts the instructions of all cases, or of the only one, and prints a line
// for each of them.
func countAll(c *callgrind, only string, out io.Writer, base counts) (counts, error) {
	if err := c.prepare(); err != nil {
		return nil, err
	}
	now := make(counts)
	printHead(out, base != nil)
	for _, test := range cases {
		if only != "" && test.name != only {
			continue
		}
		p, err := c.run(filepath.Join(c.dir, test.name), test.name)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", test.name, err)
		}
		now[test.name] = p.costs
		printLine(out, test, p, base[test.name])
	}
	if len(now) == 0 {
		return nil, fmt.Errorf("there is no case %q", only)
	}
	return now, nil
}
