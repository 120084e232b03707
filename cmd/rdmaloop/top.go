package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rdmaloop/rdmaloop/monitor"
)

// clearScreen moves the cursor to the corner and clears the screen (ECMA-48, CUP and ED).
const clearScreen = "\x1b[H\x1b[2J"

// topColumns explains the output of rates.
const topColumns = `Columns, one line for each loop:
  conns    connections now: open, opening or closing
  busy%    share of all time: awake with work
  spin%    share of all time: awake without work
  sleep%   share of all time: asleep
  turns/s  turns of the loop
  msgs/s   messages passed to OnMessage
  MB/s in  their bytes; 1 MB is 10^6 bytes
  ops/s    operations of this side that have succeeded: messages sent, READs, WRITEs, atomics
  full/s   operations refused with ErrWouldBlock
  slow/s   callbacks that took longer than Config.Limits.SlowCallback
Below, the counters of each device that have changed: the value, and the change per second.
The letters k, M and G stand for 10^3, 10^6 and 10^9.
`

func runTop(ctx context.Context, f *flags, args []string) error {
	interval := f.Duration("interval", time.Second, "time between two outputs")
	count := f.Int("n", 0, "how many outputs; 0 means until the program ends or Ctrl-C")
	dir := f.String("dir", monitor.Dir(), "`directory` of the sockets, as monitor.Options.Dir")
	args, err := f.parse(args, 0, 1)
	switch {
	case err != nil:
		return err
	case *interval < 10*time.Millisecond:
		return usagef("-interval %v: must be at least 10ms", *interval)
	case *count < 0:
		return usagef("-n %d: must not be negative", *count)
	}
	var socket string
	if len(args) == 1 {
		socket = args[0]
	} else if socket, err = onlyProgram(*dir); err != nil {
		return err
	}
	last, err := monitor.Read(socket)
	if err != nil {
		return firstError(socket, err)
	}
	for i := 1; *count == 0 || i <= *count; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(*interval):
		}
		now, err := monitor.Read(socket)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist):
			return endedError(socket)
		case err != nil:
			return err
		}
		if f.json {
			err = f.printJSON(now)
		} else {
			text := rates(last, now)
			if isTerminal(f.stdout) {
				text = clearScreen + text
			}
			_, err = io.WriteString(f.stdout, text)
		}
		if err != nil {
			return err
		}
		last = now
	}
	return nil
}

// onlyProgram returns the socket of the only program that offers its counters.
func onlyProgram(dir string) (string, error) {
	all, err := monitor.Sockets(dir)
	if err != nil {
		return "", err
	}
	var alive []string
	for _, name := range all {
		if _, err := monitor.Read(name); err == nil {
			alive = append(alive, name)
		}
	}
	switch len(alive) {
	case 0:
		return "", fmt.Errorf("no program of this user offers its counters in %s: it has to call monitor.Listen", dir)
	case 1:
		return alive[0], nil
	}
	return "", errUsage{"several programs run, name the socket of one:\n  " + strings.Join(alive, "\n  "), true}
}

// firstError explains why the first snapshot could not be read. A connect to a file that is no
// socket gets ECONNREFUSED, as one to the socket of a program that was killed (connect(2)).
func firstError(socket string, err error) error {
	info, statErr := os.Stat(socket)
	switch {
	case errors.Is(statErr, os.ErrNotExist):
		return fmt.Errorf("%s: no such socket", socket)
	case statErr == nil && info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s: not a socket of monitor.Listen", socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return endedError(socket)
	}
	return err
}

func endedError(socket string) error {
	return fmt.Errorf("%s: the program has ended", filepath.Base(socket))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// rates returns a table of the loops, and the counters of the devices that have changed, both
// for each second between two snapshots.
func rates(last, now *monitor.Snapshot) string {
	var b strings.Builder
	seconds := max(now.Time.Sub(last.Time).Seconds(), 1e-9)
	fmt.Fprintf(&b, "%s %d, %s\n\n", now.Program, now.PID, now.Time.Format(time.TimeOnly))
	fmt.Fprintf(&b, "%-12s %6s %6s %6s %6s %9s %9s %9s %9s %8s %8s\n",
		"loop", "conns", "busy%", "spin%", "sleep%", "turns/s", "msgs/s", "MB/s in", "ops/s", "full/s", "slow/s")
	for i, l := range now.Loops {
		if i >= len(last.Loops) {
			break
		}
		rate := func(name string) float64 { return float64(l.Counters[name]-last.Loops[i].Counters[name]) / seconds }
		share := func(name string) float64 { return min(100, rate(name)/1e9*100) } // of nanoseconds in a second
		fmt.Fprintf(&b, "%-12s %6d %6.1f %6.1f %6.1f %9s %9s %9.1f %9s %8s %8s\n", l.Name, l.Conns,
			share("busy"), share("spin"), share("slept"), short(rate("turns")), short(rate("messages")),
			rate("message_bytes")/1e6, short(rate("confirmed")), short(rate("queue_full")), short(rate("slow_callbacks")))
	}
	for _, d := range now.Devices {
		i := slices.IndexFunc(last.Devices, func(g monitor.Group) bool { return g.Name == d.Name && g.Port == d.Port })
		if i < 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s port %d\n", d.Name, d.Port)
		for _, name := range slices.Sorted(maps.Keys(d.Counters)) {
			if n := d.Counters[name]; n != last.Devices[i].Counters[name] {
				fmt.Fprintf(&b, "  %-28s %14d %9s/s\n", name, n, short(float64(int64(n-last.Devices[i].Counters[name]))/seconds))
			}
		}
	}
	return b.String()
}

// short returns a number with a letter for its size.
func short(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2fG", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}
