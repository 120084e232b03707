package reactor

// turn runs one turn of the loop, the most urgent step first. Each step has a budget and
// returns how much work it had.
func (l *Loop) turn() (work int) {
	l.clock.tick()
	if l.latency != nil {
		l.latency.beginTurn(l)
	}
	work = l.pollCompletions()
	for polls := l.pollsPerTurn(); work == 0 && polls > 1; polls-- {
		work = l.pollCompletions()
	}
	if work > 0 {
		l.postStaged() // Answers to messages do not wait for the other steps of the turn.
	}
	if l.turnFunc != nil {
		work += l.callTurnFunc()
	}
	work += l.pollEpoll() // events of connections, devices and registered descriptors
	if l.mailbox.waiting() {
		work += l.runPosted()
	}
	if l.timers.Due(l.clock.now) {
		work += l.timers.Expire(l.clock.now)
	}
	if l.closing.len() > 0 {
		work += l.advanceClosing()
	}
	l.postStaged()
	if work > 0 {
		l.clock.addWork(work)
		if l.latency != nil {
			l.latency.endTurn(l)
		}
	}
	l.stats.Turns++
	return work
}

func (l *Loop) run() {
	for l.state != loopEnded {
		switch {
		case l.turn() > 0:
			l.idle.stopSpin()
		case !l.keepsSpinning():
			l.sleep(noLimit)
		}
		l.finishTurn()
	}
}

func (l *Loop) pollCompletions() (work int) {
	for _, d := range l.devices {
		found := d.poll()
		if found == 0 {
			continue
		}
		work += found
		l.stats.countBatch(found)
		if l.safetyWake {
			d.group.Rescued()
		}
	}
	l.safetyWake = false
	return work
}

func (l *Loop) runPosted() int {
	n := l.mailbox.run()
	l.stats.Posted += uint64(n)
	l.idle.yields = postYields
	return n
}

// postStaged posts all staged requests. For each connection it rings one doorbell for
// the sends, and one for the receive buffers.
func (l *Loop) postStaged() {
	for i, c := range l.dirty {
		l.dirty[i] = nil
		c.dirty = false
		c.post()
	}
	l.dirty = l.dirty[:0]
	for _, d := range l.devices {
		if d.sharedRecv != nil && len(d.sharedRecv.wrs) > 0 {
			if err := d.sharedRecv.post(); err != nil {
				d.fail(err)
			}
		}
	}
}

// closeBudget is how many closing connections may take a step in one turn. A step took
// up to 150 µs when it was measured, so the steps of a turn take about 5 ms at most.
const closeBudget = 32

// advanceClosing takes up to closeBudget connections from l.closing, and calls Conn.step
// for each of them. Conn.step must not run inside a callback.
func (l *Loop) advanceClosing() (work int) {
	for n := min(l.closing.len(), closeBudget); work < n; work++ {
		l.closing.pop().step()
	}
	return work
}

// finishTurn is called after each turn of the loop. It ends the loop if done()
// returns true. It also publishes the counters.
func (l *Loop) finishTurn() {
	if l.done() && l.state != loopEnded {
		l.end()
	}
	l.publish(false)
}

// done reports whether the loop is draining and has no more connections. The loop with
// index 0 also waits for the requests of the acceptor.
func (l *Loop) done() bool {
	return l.state > loopRunning && l.liveConns == 0 && (l.index > 0 || l.engine.acceptor.drained())
}

// SetTurnFunc makes the loop call fn in every turn, after the completions. A nil fn ends
// the calls. Only the goroutine of the loop may call SetTurnFunc.
//
// A program can use fn to watch memory for WRITEs of a peer, which cause no completion
// on this side. fn should read the memory with verbs.LoadUint64.
//
// The result of fn says whether fn had work: see IdlePolicy and Config.Limits.SlowCallback. fn
// may call any method of the loop and its connections. Its requests are posted in the
// same turn.
//
// A loop with a turn function never sleeps, so it needs its own processor. RunOnce
// repeats turns until there is work or its timeout has passed. Poll always returns true, so
// an application that calls it must not block between the calls.
func (l *Loop) SetTurnFunc(fn func() (worked bool)) {
	l.owner.check()
	l.turnFunc = fn
	l.idle.stopSpin()
}

// callTurnFunc calls the function of SetTurnFunc, and returns how much work it had.
func (l *Loop) callTurnFunc() (work int) {
	l.callbackStart(nameOfTurnFunc, nil, nil)
	if !l.turnFunc() {
		return 0
	}
	l.callbackEnd()
	l.postStaged() // Answers must not wait for the other steps of the turn.
	return 1
}
