//go:build linux

package hostile

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// corruptMemory runs a client. While messages are in flight, it writes random bytes into
// all memory that the client shares with the server. The client's connections end because
// of this, and the client then opens new ones.
func corruptMemory(a *attacker) error {
	c := &client{}
	s := a.spec
	s.Expendable, s.Messages = true, 0
	if _, err := c.start(&s); err != nil {
		return err
	}
	// The client is expected to lose messages. The attack does not count them.
	defer func() { _, _ = c.finish() }()
	err := corruptUntilStopped(a)
	tally := c.report().Tally
	a.count(func(n *Attack) { n.Admitted, n.Refused = tally.Opened, tally.Ends })
	return err
}

// corruptAllMappings writes random bytes into every mapping that this process shares with
// another process.
func (a *attacker) corruptAllMappings(memory *os.File) error {
	shared, err := sharedMappings()
	for _, m := range shared {
		a.corruptMapping(memory, m)
	}
	return err
}

// A mapping is a range of addresses at which this process shares memory with another
// process.
type mapping struct{ from, to uint64 }

// sharedMappings returns the mappings of memory files in this process. See
// proc_pid_maps(5) and memfd_create(2).
func sharedMappings() (list []mapping, err error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if !strings.Contains(lines.Text(), "/memfd:") {
			continue
		}
		var m mapping
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &m.from, &m.to); err == nil {
			list = append(list, m)
		}
	}
	return list, nil
}

// headerBytes is the size in bytes of the first part of a mapping. This part contains the
// counters and the first slots of the rings, so random bytes do the most harm there.
const headerBytes = 8 << 10

// corruptMapping writes up to 64 random bytes at each of a few random offsets. The server
// and this process's own device may read the memory at the same time, which is a data
// race that the attack intends. The mapping may be unmapped at any time. So
// corruptMapping writes through the file /proc/self/mem: a write to an unmapped address
// returns an error there, and does not end the process with a fault.
func (a *attacker) corruptMapping(memory *os.File, m mapping) {
	for range 1 + a.rand.IntN(4) {
		size := m.to - m.from
		if a.rand.IntN(4) > 0 {
			size = min(size, headerBytes)
		}
		b := a.bytes(1 + a.rand.IntN(64))
		if a.rand.IntN(4) == 0 {
			// Some of the bytes are zeros, so that some of the written numbers are small.
			// A counter of a ring starts from zero, so a small number is more likely to
			// look valid.
			clear(b)
		}
		n, err := memory.WriteAt(b, int64(m.from+a.rand.Uint64N(size)))
		if err != nil {
			continue
		}
		a.count(func(c *Attack) { c.Sent++; c.SentBytes += uint64(n) })
	}
}
