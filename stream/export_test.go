package stream

// FailListener makes a listener fail as when its device has failed.
func FailListener(ln *Listener, err error) {
	ln.network.loop.Lock()
	defer ln.network.loop.Unlock()
	callbacks{listener: ln}.OnListenError(ln.ln, err)
}

// StopLoop stops the engine of a Network, as an error of the engine does.
func StopLoop(n *Network) { n.loop.Reactor().Engine().Stop() }

// Waiting returns how many connections wait for Accept.
func Waiting(ln *Listener) int { return len(ln.accepted) }
