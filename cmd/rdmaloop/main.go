// Command rdmaloop helps to operate programs that use rdmaloop:
//
//	rdmaloop doctor     what this host has and allows, what that means, and what to do
//	rdmaloop top        the counters of a running program
//	rdmaloop ping HOST  round trips to another host, or to a process of this host
//	rdmaloop selftest   the conformance tests, on an RDMA device
//	rdmaloop version    the version of this program, of Go and of the kernel
//
// Each has -h, and -json for programs. The exit status is 0, 1 after a failure or a problem
// that doctor has found, and 2 for wrong arguments.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

func main() {
	if suite := os.Getenv(suiteVariable); suite != "" {
		runSuite(suite)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit statuses.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

// errUsage is the error of wrong arguments.
type errUsage struct {
	text  string
	whole bool // the text says all: the flags would not help
}

func (e errUsage) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return errUsage{text: fmt.Sprintf(format, args...)}
}

// errFound is the error of a command whose output says what is wrong.
var errFound = errors.New("problems were found")

// A command is one of the commands. Its function parses the arguments.
type command struct {
	name, arguments, help string
	run                   func(ctx context.Context, f *flags, args []string) error
	output                string // what the output means; may be empty
}

var commands = []command{
	{"doctor", "", "what this host has and allows, what that means, and what to do", runDoctor, ""},
	{"top", "[SOCKET]", "the counters of a running program that has called monitor.Listen", runTop, topColumns},
	{"ping", "HOST[:PORT]", "round trips to a host on which rdmaloop ping -listen or examples/echo -listen runs; port 7471 by default", runPing, ""},
	{"selftest", "DEVICE", "the conformance tests on an RDMA device, given by its name or address", runSelftest, ""},
	{"version", "", "the versions of this program, of Go and of the system", runVersion, ""},
}

// flags are the flags of a command, and its output.
type flags struct {
	*flag.FlagSet
	json           bool
	stdout, stderr io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" || args[0] == "help" {
		usage(stderr)
		if len(args) == 0 {
			return exitUsage
		}
		return exitOK
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.start(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "rdmaloop: unknown command %q\n", args[0])
	usage(stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: rdmaloop COMMAND [FLAGS] [ARGUMENTS]")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-24s %s\n", c.name+" "+c.arguments, c.help)
	}
	fmt.Fprintln(w, "rdmaloop COMMAND -h lists the flags of a command.")
}

// start runs the command and returns the exit status.
func (c *command) start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := &flags{FlagSet: flag.NewFlagSet("rdmaloop "+c.name, flag.ContinueOnError), stdout: stdout, stderr: stderr}
	f.BoolVar(&f.json, "json", false, "print JSON")
	err := c.run(ctx, f, args)
	var wrong errUsage
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, flag.ErrHelp):
		c.usage(f, stderr)
		return exitOK
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "rdmaloop %s: %v\n", c.name, err)
		if !wrong.whole {
			c.usage(f, stderr)
		}
		return exitUsage
	case !errors.Is(err, errFound):
		fmt.Fprintf(stderr, "rdmaloop %s: %v\n", c.name, err)
	}
	return exitFailed
}

func (c *command) usage(f *flags, w io.Writer) {
	fmt.Fprintln(w, strings.TrimSpace("usage: rdmaloop "+c.name+" [FLAGS] "+c.arguments))
	f.SetOutput(w)
	f.PrintDefaults()
	io.WriteString(w, c.output)
}

// parse parses flags that may come before and after the arguments, of which there are from
// least to most, and returns the arguments.
func (f *flags) parse(args []string, least, most int) ([]string, error) {
	var rest []string
	for p := f.explained(); ; {
		if err := p.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, errUsage{text: err.Error()}
		}
		if p.NArg() == 0 {
			break
		}
		rest, args = append(rest, p.Arg(0)), p.Args()[1:]
	}
	switch {
	case len(rest) < least:
		return nil, usagef("an argument is missing")
	case len(rest) > most:
		return nil, usagef("unexpected argument %q", rest[most])
	}
	return rest, nil
}

// explained returns a set of the same flags whose errors say what is expected, where package
// flag has only "parse error". PrintDefaults needs f, because it looks at the types of values.
func (f *flags) explained() *flag.FlagSet {
	p := flag.NewFlagSet(f.Name(), flag.ContinueOnError)
	p.SetOutput(io.Discard)
	f.VisitAll(func(one *flag.Flag) {
		v := one.Value
		if getter, ok := v.(flag.Getter); ok {
			v = explained{getter}
		}
		p.Var(v, one.Name, one.Usage)
	})
	return p
}

// explained is the value of a flag of a set of flags.explained.
type explained struct{ flag.Getter }

func (e explained) IsBoolFlag() bool {
	_, ok := e.Get().(bool)
	return ok
}

func (e explained) Set(text string) error {
	err := e.Getter.Set(text)
	addr, isAddr := e.Get().(*netip.Addr)
	if err == nil && (!isAddr || addr.IsValid()) { // UnmarshalText takes "" for the zero Addr.
		return nil
	}
	switch e.Get().(type) {
	case *netip.Addr:
		return errors.New("must be an IP address such as 192.0.2.1")
	case time.Duration:
		return errors.New("must be a time with its unit, such as 10ms or 5s")
	case int, uint:
		return errors.New("must be a whole number")
	case bool:
		return errors.New("must be true or false")
	}
	return err
}

// printJSON prints a value as JSON in one line.
func (f *flags) printJSON(v any) error { return json.NewEncoder(f.stdout).Encode(v) }

// versions are the versions that a report needs.
type versions struct {
	Program string `json:"rdmaloop"`
	Go      string `json:"go"`
	System  string `json:"system"` // system, processor and kernel
}

func versionsOfThis() versions {
	v := versions{Program: "unknown", Go: runtime.Version(), System: strings.TrimSpace(runtime.GOOS + " " + runtime.GOARCH + " " + kernel())}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Program = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && info.Main.Version == "(devel)" {
				v.Program += " " + s.Value
			}
		}
	}
	return v
}

// kernel returns the version of the kernel, or "" if it is not known.
func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease") // Only Linux has it.
	return strings.TrimSpace(string(text))
}

func (v versions) String() string {
	return fmt.Sprintf("rdmaloop %s, %s, %s", v.Program, v.Go, v.System)
}

func runVersion(_ context.Context, f *flags, args []string) error {
	if _, err := f.parse(args, 0, 0); err != nil {
		return err
	}
	if f.json {
		return f.printJSON(versionsOfThis())
	}
	_, err := fmt.Fprintln(f.stdout, versionsOfThis())
	return err
}
