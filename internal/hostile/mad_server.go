//go:build linux

package hostile

import (
	"fmt"
	"os"
	"time"
)

// A madServer is a server that writes random bytes into all memory that it shares
// with its clients.
type madServer struct {
	server
	attacker
}

func (m *madServer) start(s *Spec) (Note, error) {
	note, err := m.server.start(s)
	if err != nil {
		return note, err
	}
	m.attack = scribbleForever
	_, err = m.attacker.start(s)
	return note, err
}

func (m *madServer) report() Note {
	note := m.server.report()
	note.Attack = m.attacker.report().Attack
	return note
}

func (m *madServer) await() { m.attacker.await() }

func (m *madServer) finish() (Note, error) {
	note, err := m.attacker.finish()
	if err != nil {
		return note, err
	}
	state, err := m.server.finish()
	note.Server = state.Server
	return note, err
}

// scribbleForever writes into all shared mappings until the attacker is told to stop.
func scribbleForever(a *attacker) error {
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	return a.eachRound(func() error {
		if err := a.scribbleOverAll(memory); err != nil {
			return fmt.Errorf("shared memory: %w", err)
		}
		a.pause(time.Millisecond)
		return nil
	})
}
