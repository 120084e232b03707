package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// pkg is the import path of this package.
const pkg = "github.com/rdmaloop/rdmaloop/internal/instructions"

// A callgrind runs the tests of this package under callgrind.
type callgrind struct {
	dir       string // directory for temporary files
	goCommand string
	valgrind  string // path of valgrind
	program   string // path of the tests, after prepare
}

// prepare looks for valgrind and builds the tests. They need a symbol table, from which
// callgrind reads the names of functions. Without cgo there are no functions of C.
func (c *callgrind) prepare() (err error) {
	if c.valgrind, err = exec.LookPath("valgrind"); err != nil {
		return fmt.Errorf("%w: install valgrind; on Debian: apt-get install valgrind", err)
	}
	c.program = filepath.Join(c.dir, "operations")
	build := exec.Command(c.goCommand, "test", "-c", "-o", c.program, "-ldflags=-w", pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// run runs the operations of a case, and returns what callgrind has counted between the
// two calls of the function mark. Callgrind's files begin with the given path.
func (c *callgrind) run(path, name string) (*profile, error) {
	cmd := exec.Command(c.valgrind, "--tool=callgrind", "--quiet", "--demangle=no", "--compress-strings=no",
		"--compress-pos=no", "--dump-before="+pkg+".mark", "--callgrind-out-file="+path,
		c.program, "-test.run=^TestOperations$/^"+name+"$")
	// No garbage collection, no signals that interrupt a goroutine, and no RDTSCP, which ends the
	// program with SIGILL: valgrind 3.19 does not know it on every processor that has it.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off")
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, messages.Bytes())
	}
	// Callgrind writes a part before each call of mark. The first part has the start and
	// the first operations.
	part, err := os.Open(path + ".2")
	if err != nil {
		return nil, err
	}
	defer part.Close()
	return parse(part)
}

// A profile has the counts of callgrind, divided by the number of operations.
type profile struct {
	// Instructions that each function has executed itself, without those of the functions
	// that it has called.
	costs map[string]float64
	calls map[string]float64 // number of calls of each function
}

// parse reads a file of callgrind, in which neither names nor positions are compressed.
// The format: valgrind's manual, "Callgrind Format Specification".
func parse(r io.Reader) (*profile, error) {
	p := &profile{costs: make(map[string]float64), calls: make(map[string]float64)}
	var function, called string
	var total, summary uint64
	inCall := false // true if the next line has the cost of a call
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		key, value, _ := strings.Cut(line, "=")
		var n uint64
		var err error
		switch {
		case key == "fn":
			function = plainName(value)
		case key == "cfn":
			called = plainName(value)
		case key == "calls":
			value, _, _ = strings.Cut(value, " ")
			n, err = strconv.ParseUint(value, 10, 64)
			p.calls[called] += float64(n) / operations
			inCall = true
		case strings.HasPrefix(line, "summary: "):
			summary, err = strconv.ParseUint(line[len("summary: "):], 10, 64)
		case line == "" || line[0] < '0' || line[0] > '9':
		case inCall:
			inCall = false
		default:
			n, err = parseCost(line)
			p.costs[function] += float64(n) / operations
			total += n
		}
		if err != nil {
			return nil, fmt.Errorf("callgrind's line %q: %w", line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if total == 0 || total != summary {
		return nil, fmt.Errorf("callgrind's functions have %d instructions, and its summary %d", total, summary)
	}
	return p, nil
}

// plainName returns the name of a function without the number that callgrind appends in
// a recursion, as in "f'2".
func plainName(name string) string {
	name, _, _ = strings.Cut(name, "'")
	return name
}

// parseCost returns the cost in a line that has one position and one cost. Callgrind
// leaves out a cost of zero.
func parseCost(line string) (uint64, error) {
	switch fields := strings.Fields(line); len(fields) {
	case 1:
		return 0, nil
	case 2:
		return strconv.ParseUint(fields[1], 10, 64)
	}
	return 0, errors.New("not one position and one cost")
}
