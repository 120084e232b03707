//go:build linux

package hostile

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// corruptMemory runs a client and writes random bytes into all memory that the client
// shares with the server. The client's connections end, and it opens new ones.
func corruptMemory(a *attacker) error {
	c := &client{}
	s := a.spec
	s.Expendable, s.Messages = true, 0
	if _, err := c.start(&s); err != nil {
		return err
	}
	// finish() reports lost messages, which this attack may cause.
	defer func() { _, _ = c.finish() }()
	err := corruptUntilStopped(a)
	tally := c.report().Tally
	a.count(func(n *Attack) { n.Admitted, n.Refused = tally.Opened, tally.Ends })
	return err
}

// corruptAllMappings writes random bytes into every mapping shared with another process.
func (a *attacker) corruptAllMappings(memory *os.File) error {
	shared, err := sharedMappings()
	for _, m := range shared {
		a.corruptMapping(memory, m)
	}
	return err
}

// A mapping is a range of addresses shared with another process.
type mapping struct {
	from, to uint64
	name     string // name of the memory file: /memfd: and the name for memfd_create(2)
}

// sharedMappings returns the mappings of memory files. Source: proc_pid_maps(5),
// memfd_create(2).
func sharedMappings() (list []mapping, err error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if !strings.Contains(lines.Text(), " /memfd:") {
			continue
		}
		var m mapping
		fields := strings.Fields(lines.Text())
		m.name = fields[5]
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to); err == nil {
			list = append(list, m)
		}
	}
	return list, nil
}

// headerBytes is the size in bytes of the first part of a mapping. It contains the
// counters, so random bytes do the most harm there.
const headerBytes = 8 << 10

// corruptMapping writes random bytes at a few random offsets. The data races are
// intended. Another goroutine may unmap the memory meanwhile. Then a write through
// /proc/self/mem only returns an error.
func (a *attacker) corruptMapping(memory *os.File, m mapping) {
	for range 1 + a.rand.IntN(4) {
		size := m.to - m.from
		if a.rand.IntN(4) > 0 {
			size = min(size, headerBytes)
		}
		b := a.bytes(1 + a.rand.IntN(64))
		if a.rand.IntN(4) == 0 {
			// Counters start from zero, so small numbers look valid more often. Zero
			// bytes make small numbers.
			clear(b)
		}
		n, err := memory.WriteAt(b, int64(m.from+a.rand.Uint64N(size)))
		if err != nil {
			continue
		}
		a.count(func(c *Attack) { c.Sent++; c.SentBytes += uint64(n) })
	}
}
