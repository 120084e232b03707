//go:build linux

package hostile

import "sync"

// connectSilently connects to the listener as fast as possible from Spec.Conns
// goroutines, and sends nothing. Each waits until the server has closed its socket, and
// connects again. Attack.Sent counts the sockets that were connected, Attack.Received the
// messages of the server, and Attack.Refused the sockets that the server closed.
// Spec.Rounds is the number of sockets of each goroutine.
func connectSilently(a *attacker) error {
	dst := a.spec.Addr
	name := localName(dst.Addr().String(), dst.Port())
	var all sync.WaitGroup
	for range max(a.spec.Conns, 1) {
		all.Go(func() {
			// The error is that of a.ctx, or nil.
			_ = a.eachRound(func() error {
				s, err := newLocalSocket()
				if err != nil {
					return nil // No descriptor is free in this round.
				}
				defer s.close()
				if s.connect(name) != nil {
					return nil
				}
				_, explained := s.receive()
				hungUp := s.waitForClose()
				a.count(func(c *Attack) {
					c.Sent++
					if explained {
						c.Received++
					}
					if hungUp {
						c.Refused++
					}
				})
				return nil
			})
		})
	}
	all.Wait()
	return nil
}
