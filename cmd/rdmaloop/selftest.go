package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider"
	"github.com/rdmaloop/rdmaloop/provider/providertest"
	"github.com/rdmaloop/rdmaloop/provider/soft"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// suiteVariable makes this program run the conformance tests, as a program of go test does,
// and nothing else. Its value is the provider, the address and a pattern, with a space between
// them.
const suiteVariable = "RDMALOOP_SELFTEST"

// runSuite runs the conformance tests and ends the process. Package testing writes the results
// to the standard output.
func runSuite(value string) {
	name, rest, _ := strings.Cut(value, " ")
	text, pattern, _ := strings.Cut(rest, " ")
	addr, err := netip.ParseAddr(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUsage)
	}
	open := func(t *testing.T) cm.Provider {
		p, err := openTested(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	os.Args = []string{os.Args[0], "-test.v", "-test.timeout=10m", "-test.run=Conformance/" + pattern}
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: "Conformance", F: func(t *testing.T) {
		providertest.Run(t, open, providertest.Options{Addr: addr, Credentials: name == "soft"})
	}}}, nil, nil)
}

// openTested opens a provider. The tests of the device in software use its local path.
func openTested(name string) (cm.Provider, error) {
	return provider.Open(name, &provider.Config{Soft: &soft.Config{Path: soft.PathLocal}})
}

// A selftestReport is what selftest prints. It can be pasted into an issue.
type selftestReport struct {
	versions
	Libraries    []string         `json:"libraries,omitempty"` // files of rdma-core, whose names have the versions
	Provider     string           `json:"provider"`
	Device       string           `json:"device"`
	Address      string           `json:"address"`
	Attributes   verbs.DeviceAttr `json:"attributes"`
	Capabilities verbs.Caps       `json:"capabilities"`
	Passed       int              `json:"passed"`
	Failed       []selftestCase   `json:"failed"`
	Skipped      []selftestCase   `json:"skipped"`
}

type selftestCase struct {
	Name   string `json:"name"`
	Output string `json:"output"`
}

func runSelftest(ctx context.Context, f *flags, args []string) error {
	name := f.String("provider", "rdmacore", "rdmacore or soft")
	pattern := f.String("run", "", "run only the cases whose names, or parts between slashes, match this `pattern`, as go test -run")
	args, err := f.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if _, err := regexp.Compile(*pattern); err != nil {
		return usagef("-run: %v", err)
	}
	if *name != "rdmacore" && *name != "soft" {
		return usagef("-provider %q: must be rdmacore or soft", *name)
	}
	p, err := openTested(*name)
	if err != nil {
		return err
	}
	dev, addr, err := findDevice(p, args[0])
	if err != nil {
		return errors.Join(err, p.Close())
	}
	r := &selftestReport{
		versions: versionsOfThis(), Libraries: loadedLibraries(), Provider: *name,
		Device: dev.Name(), Address: addr.String(), Attributes: dev.Attr(), Capabilities: dev.Caps(),
	}
	if err := p.Close(); err != nil {
		return err
	}
	progress := io.Discard
	if isTerminal(f.stderr) {
		progress = f.stderr
	}
	if err := r.run(ctx, *pattern, progress); err != nil {
		return err
	}
	if f.json {
		err = f.printJSON(r)
	} else {
		_, err = io.WriteString(f.stdout, r.String())
	}
	if err == nil && len(r.Failed) > 0 {
		err = errFound
	}
	return err
}

// findDevice finds a device by its name or by an address, and an address of the device.
func findDevice(p verbs.Provider, text string) (verbs.Device, netip.Addr, error) {
	devices, err := p.Devices()
	if err != nil {
		return nil, netip.Addr{}, err
	}
	want, _ := netip.ParseAddr(text) // The zero Addr matches no GID.
	var known []string
	for _, dev := range devices {
		known = append(known, dev.Name())
		if want.IsLoopback() && dev.Caps().LoopbackAddrs {
			return dev, want, nil
		}
		for num := range dev.Attr().NumPorts {
			port, err := dev.Port(uint8(num + 1))
			if err != nil {
				return nil, netip.Addr{}, err
			}
			for _, gid := range port.GIDs {
				addr := gid.Addr()
				if addr == want.Unmap() || dev.Name() == text && addr.IsValid() && !addr.IsUnspecified() && !addr.IsLinkLocalUnicast() {
					return dev, addr, nil
				}
			}
		}
		if dev.Name() == text && dev.Caps().LoopbackAddrs {
			return dev, netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
		}
	}
	return nil, netip.Addr{}, fmt.Errorf("no device has the name or the address %q, or the device has no address of a network; devices: %s",
		text, strings.Join(known, ", "))
}

// loadedLibraries returns the files of the libraries of rdma-core that this process has opened.
// Source: proc_pid_maps(5).
func loadedLibraries() (list []string) {
	text, _ := os.ReadFile("/proc/self/maps") // Only Linux has it.
	for line := range bytes.Lines(text) {
		name := string(line[bytes.LastIndexByte(bytes.TrimSpace(line), ' ')+1:])
		name = filepath.Base(strings.TrimSpace(name))
		if (strings.HasPrefix(name, "libibverbs.") || strings.HasPrefix(name, "librdmacm.")) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// run runs the tests in another process, and shows the progress.
func (r *selftestReport) run(ctx context.Context, pattern string, progress io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, program)
	c.Env = append(os.Environ(), suiteVariable+"="+r.Provider+" "+r.Address+" "+pattern)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	r.read(out, progress)
	err = c.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && r.Passed+len(r.Failed)+len(r.Skipped) == 0 {
		return fmt.Errorf("no case matches %q", pattern)
	}
	if err != nil && len(r.Failed) == 0 {
		return fmt.Errorf("the tests have ended too early: %w: %s", err, firstLines(stderr.String(), 20))
	}
	return nil
}

// Lines of the output of package testing: cmd/test2json describes them.
var (
	startLine  = regexp.MustCompile(`^=== (?:RUN|NAME|CONT) +(\S+)`)
	resultLine = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
)

// maxOutput is how many bytes of the output of a case are kept. Arbitrary.
const maxOutput = 4 << 10

// read reads the output of the tests. A test that has others in it does not count.
func (r *selftestReport) read(out io.Reader, progress io.Writer) {
	output := map[string]string{}
	type result struct{ status, name string }
	var results []result
	parents := map[string]bool{}
	current := ""
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := startLine.FindStringSubmatch(line); m != nil {
			current = m[1]
			for i, c := range current {
				if c == '/' {
					parents[current[:i]] = true
				}
			}
			if strings.HasPrefix(line, "=== RUN") {
				fmt.Fprintf(progress, "\r\x1b[K%s", current)
			}
		} else if m := resultLine.FindStringSubmatch(line); m != nil {
			results = append(results, result{m[1], m[2]})
		} else if strings.HasPrefix(line, " ") && len(output[current]) < maxOutput {
			output[current] += strings.TrimSpace(line) + "\n"
		}
	}
	fmt.Fprint(progress, "\r\x1b[K")
	for _, res := range results {
		name, isCase := strings.CutPrefix(res.name, "Conformance/")
		if !isCase || parents[res.name] {
			continue
		}
		c := selftestCase{name, strings.TrimSpace(output[res.name])}
		switch res.status {
		case "PASS":
			r.Passed++
		case "FAIL":
			r.Failed = append(r.Failed, c)
		case "SKIP":
			r.Skipped = append(r.Skipped, c)
		}
	}
}

func firstLines(text string, n int) string {
	lines := strings.SplitAfterN(text, "\n", n+1)
	return strings.TrimSpace(strings.Join(lines[:min(n, len(lines))], ""))
}

func (r *selftestReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", r.versions)
	for _, name := range r.Libraries {
		fmt.Fprintf(&b, "library %s\n", name)
	}
	fmt.Fprintf(&b, "device %s of the provider %s, address %s\n", r.Device, r.Provider, r.Address)
	fmt.Fprintf(&b, "attributes %+v\ncapabilities %+v\n", r.Attributes, r.Capabilities)
	fmt.Fprintf(&b, "passed %d, failed %d, skipped %d\n", r.Passed, len(r.Failed), len(r.Skipped))
	for _, c := range r.Failed {
		fmt.Fprintf(&b, "FAILED %s\n  %s\n", c.Name, strings.ReplaceAll(c.Output, "\n", "\n  "))
	}
	for _, c := range r.Skipped {
		fmt.Fprintf(&b, "skipped %s: %s\n", c.Name, c.Output)
	}
	return b.String()
}
