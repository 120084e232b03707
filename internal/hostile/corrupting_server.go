//go:build linux

package hostile

import (
	"fmt"
	"os"
	"time"
)

// A corruptingServer is a server that writes random bytes into all memory shared with its
// clients.
type corruptingServer struct {
	server
	attacker
}

func (m *corruptingServer) start(s *Spec) (Note, error) {
	note, err := m.server.start(s)
	if err != nil {
		return note, err
	}
	m.attack = corruptUntilStopped
	_, err = m.attacker.start(s)
	return note, err
}

func (m *corruptingServer) report() Note {
	note := m.server.report()
	note.Attack = m.attacker.report().Attack
	return note
}

func (m *corruptingServer) await() { m.attacker.await() }

func (m *corruptingServer) finish() (Note, error) {
	note, err := m.attacker.finish()
	if err != nil {
		return note, err
	}
	state, err := m.server.finish()
	note.Server = state.Server
	return note, err
}

// corruptUntilStopped writes random bytes into all shared mappings until told to stop.
func corruptUntilStopped(a *attacker) error {
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	return a.eachRound(func() error {
		if err := a.corruptAllMappings(memory); err != nil {
			return fmt.Errorf("shared memory: %w", err)
		}
		a.pause(time.Millisecond)
		return nil
	})
}
