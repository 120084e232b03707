package providertest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func channelCases() []testCase {
	return []testCase{
		{"arm, event, poll, acknowledge", armAndFire},
		{"no event without arming", unarmed},
		{"one event for one arm", oneEvent},
		{"arming twice raises one event", armTwice},
		{"a disarmed queue raises no event", disarm},
		{"sleep before Join", sleepBeforeJoin},
		{"old completions raise no event", armTooLate},
		{"solicited only", solicitedOnly},
		{"a failure counts as solicited", solicitedFailure},
		{"several queues", severalCQs},
		{"events of several queues are fetched in turn", eventsTakeTurns},
		{"unacknowledged events keep the CQ open", unacknowledged},
		{"both ends sleep", sleepers},
		{"a vector has one owner in manual progress", oneOwner},
	}
}

// Cookies of the CQs for sends and for receives.
const sendsCookie, recvsCookie = 1, 2

// A watched is a pair whose end b has a completion channel. The rig does not poll the
// receive CQ of end b, because the case waits for events of this CQ.
type watched struct {
	*pair
	channel verbs.CompChannel
}

func (r *rig) newChannel(vector int) verbs.CompChannel {
	r.t.Helper()
	channel, err := r.dev.CreateCompChannel(&verbs.CompChannelAttr{Vector: vector, Progress: r.progress})
	r.NoError(err)
	r.closing("completion channel", channel.Close)
	return channel
}

func (r *rig) watched() *watched {
	r.t.Helper()
	a, b := r.plans()
	b.channel = r.newChannel(b.vector)
	w := &watched{r.connect(&a, &b), b.channel}
	w.b.mustRecv(0, 8)
	w.b.recvs.paused = true
	return w
}

// awaitEvent waits for an event of the channel and returns the event's cookie. The
// descriptor may be readable although there is no event. Then awaitEvent waits again.
func (w *watched) awaitEvent() uint64 {
	w.t.Helper()
	var cookie uint64
	w.until("an event", func() bool {
		ready, err := readable(w.channel.FD(), 0)
		w.NoError(err)
		if !ready {
			return false
		}
		var ok bool
		cookie, ok, err = w.channel.Next()
		w.NoError(err)
		return ok
	})
	return cookie
}

// requireNoEvent checks several times that the channel has no event. After each check, it
// polls the rig.
func (w *watched) requireNoEvent() {
	w.t.Helper()
	for range 10 {
		_, ok, err := w.channel.Next()
		w.NoError(err)
		w.False(ok, "an event")
		w.turn()
	}
}

// deliver sends n messages from end a and awaits their send completions.
func (w *watched) deliver(n int, flags verbs.SendFlags) {
	w.t.Helper()
	wrs := w.a.manySends(0, n)
	for i := range wrs {
		wrs[i].Flags |= flags
	}
	w.a.post(wrs...)
	w.a.sends.succeed(n)
}

// received takes n receive completions of end b.
func (w *watched) received(n int) {
	w.t.Helper()
	w.b.recvs.paused = false
	w.b.recvs.succeed(n)
	w.b.recvs.paused = true
}

func armAndFire(r *rig) {
	w := r.watched()
	for range 3 {
		r.NoError(w.b.recvs.cq.Arm(false))
		w.deliver(1, 0)
		r.Equal(uint64(recvsCookie), w.awaitEvent())
		w.received(1)
		w.b.recvs.cq.AckEvents(1)
		w.requireNoEvent()
	}
}

func unarmed(r *rig) {
	w := r.watched()
	w.deliver(3, verbs.SendSolicited)
	w.requireNoEvent()
	w.received(3)
}

func oneEvent(r *rig) {
	w := r.watched()
	r.NoError(w.b.recvs.cq.Arm(false))
	w.deliver(3, 0)
	w.awaitEvent()
	w.requireNoEvent()
	w.received(3)
	w.b.recvs.cq.AckEvents(1)
}

func armTwice(r *rig) {
	w := r.watched()
	r.NoError(w.b.recvs.cq.Arm(false))
	r.NoError(w.b.recvs.cq.Arm(false))
	w.deliver(2, 0)
	w.awaitEvent()
	w.requireNoEvent()
	w.received(2)
	w.b.recvs.cq.AckEvents(1)
}

// armTooLate arms a CQ that holds a completion. Only the next completion causes an event
// (ibv_req_notify_cq(3)).
func armTooLate(r *rig) {
	w := r.watched()
	w.deliver(1, 0)
	r.NoError(w.b.recvs.cq.Arm(false))
	w.requireNoEvent()
	w.deliver(1, 0)
	w.awaitEvent()
	w.received(2)
	w.b.recvs.cq.AckEvents(1)
}

func solicitedOnly(r *rig) {
	w := r.watched()
	r.NoError(w.b.recvs.cq.Arm(true))
	w.deliver(2, 0)
	w.requireNoEvent()
	w.deliver(1, verbs.SendSolicited)
	r.Equal(uint64(recvsCookie), w.awaitEvent())
	w.received(3)
	w.b.recvs.cq.AckEvents(1)
}

func solicitedFailure(r *rig) {
	w := r.watched()
	r.NoError(w.b.recvs.cq.Arm(true))
	w.b.toState(verbs.StateError)
	r.Equal(uint64(recvsCookie), w.awaitEvent())
	w.b.recvs.cq.AckEvents(1)
}

// severalCQs arms both CQs of end b. Each event must have the cookie of its CQ.
func severalCQs(r *rig) {
	w := r.watched()
	r.NoError(w.b.recvs.cq.Arm(false))
	r.NoError(w.b.sends.cq.Arm(false))
	w.deliver(1, 0)
	w.a.recv(1, w.a.sge(0, 64))
	w.b.sends.paused = true
	w.b.post(send(1, w.b.sge(0, 64)))
	cookies := []uint64{w.awaitEvent(), w.awaitEvent()}
	slices.Sort(cookies)
	r.Equal(slices.Sorted(slices.Values([]uint64{sendsCookie, recvsCookie})), cookies)
	w.received(1)
	w.b.sends.paused = false
	w.b.sends.one()
	w.a.recvs.one()
	w.b.recvs.cq.AckEvents(1)
	w.b.sends.cq.AckEvents(1)
}

// eventsTakeTurns checks that the event that has waited longest is fetched first.
func eventsTakeTurns(r *rig) {
	const rounds = 4
	w := r.watched()
	r.NoError(w.b.recvs.cq.Arm(false))
	w.deliver(1, 0)
	for i := range uint64(rounds) {
		r.NoError(w.b.sends.cq.Arm(false))
		w.a.recv(i, w.a.sge(0, 64))
		w.b.post(send(i, w.b.sge(0, 64)))
		w.a.recvs.one()
		w.b.sends.one()
		r.Equal(uint64(recvsCookie), w.awaitEvent())
		r.NoError(w.b.recvs.cq.Arm(false))
		w.deliver(1, 0)
		r.Equal(uint64(sendsCookie), w.awaitEvent(), "the event that has waited longer comes first")
	}
	r.Equal(uint64(recvsCookie), w.awaitEvent())
	w.received(rounds + 1)
	w.b.recvs.cq.AckEvents(rounds + 1)
	w.b.sends.cq.AckEvents(rounds)
}

// unacknowledged checks that a CQ with an unacknowledged event can not be closed
// (ibv_get_cq_event(3)).
func unacknowledged(r *rig) {
	w := r.watched()
	r.NoError(w.b.recvs.cq.Arm(false))
	w.deliver(1, 0)
	w.awaitEvent()
	r.NoError(w.b.closeQP())
	r.ErrorIs(w.b.recvs.cq.Close(), verbs.ErrBusy)
	w.b.recvs.cq.AckEvents(1)
	r.NoError(w.b.recvs.cq.Close())
}

// sleepBeforeJoin calls Sleep of a channel without Join, which a channel with automatic
// progress refuses.
func sleepBeforeJoin(r *rig) {
	channel := r.newChannel(0)
	_, _, err := channel.Sleep(0)
	r.ErrorIs(err, verbs.ErrState)
	if r.progress == verbs.ProgressAuto || !r.dev.Caps().ProgressManual {
		r.ErrorIs(channel.Join(channel.FD()), verbs.ErrNotSupported)
		_, _, err = channel.Sleep(0)
		r.ErrorIs(err, verbs.ErrState)
	}
}

// disarm calls Disarm before a completion comes, and again when an event is already
// queued. In both cases the channel must have no event. Then Arm must work again.
func disarm(r *rig) {
	w := r.watched()
	if !w.b.recvs.cq.Disarm() {
		r.t.Skip("the device does not have the capability: cancelling Arm")
	}
	r.NoError(w.b.recvs.cq.Arm(false))
	w.b.recvs.cq.Disarm()
	w.deliver(1, 0)
	w.requireNoEvent()
	w.received(1)

	r.NoError(w.b.recvs.cq.Arm(false))
	w.deliver(1, 0)
	w.received(1) // the event is queued
	w.b.recvs.cq.Disarm()
	w.requireNoEvent()

	r.NoError(w.b.recvs.cq.Arm(false))
	w.deliver(1, 0)
	r.Equal(uint64(recvsCookie), w.awaitEvent())
	w.received(1)
	w.b.recvs.cq.AckEvents(1)
}

// oneOwner creates a second channel on a completion vector. With manual progress, it must
// fail while the first channel is open.
func oneOwner(r *rig) {
	first := r.newChannel(0)
	attr := &verbs.CompChannelAttr{Progress: r.progress}
	second, err := r.dev.CreateCompChannel(attr)
	if r.progress == verbs.ProgressManual {
		r.ErrorIs(err, verbs.ErrBusy)
		r.NoError(first.Close())
		second, err = r.dev.CreateCompChannel(attr)
	}
	r.NoError(err)
	r.NoError(second.Close())
}

// A sleeper is an end whose goroutine sleeps while there is no message.
type sleeper struct {
	end     *end
	channel verbs.CompChannel
	sleeps  int
}

// sleepers lets two sleeping goroutines send a message back and forth. A lost wake-up
// fails the case.
func sleepers(r *rig) {
	if r.progress == verbs.ProgressManual && (r.attr.NumCompVectors < 2 || r.opts.OneVector) {
		r.t.Skip("with manual progress and one completion vector only one goroutine can be the owner")
	}
	const rounds = 300
	a, b := r.plans()
	a.channel, b.channel = r.newChannel(a.vector), r.newChannel(b.vector)
	a.recvs = r.newQueue(verbs.CQAttr{Depth: 128, Vector: a.vector, Channel: a.channel})
	b.recvs = r.newQueue(verbs.CQAttr{Depth: 128, Vector: b.vector, Channel: b.channel})
	a.sends, b.sends = a.recvs, b.recvs
	p := r.connect(&a, &b)
	p.a.recvs.paused, p.b.recvs.paused = true, true
	p.b.recv(recvID, p.b.sge(0, 64))

	ends := []*sleeper{{end: p.a, channel: a.channel}, {end: p.b, channel: b.channel}}
	errs := make([]error, len(ends))
	var wg sync.WaitGroup
	for i, s := range ends {
		wg.Go(func() { errs[i] = s.run(rounds, i == 0) })
	}
	wg.Wait()
	for i, s := range ends {
		r.NoError(errs[i])
		r.t.Logf("end %d slept %d times in %d rounds", i, s.sleeps, rounds)
	}
}

// run sends and awaits messages in turn.
func (s *sleeper) run(rounds int, starts bool) error {
	steps := []func() error{s.await, s.send}
	if starts {
		steps = []func() error{s.send, s.await}
	}
	for i := range rounds {
		for _, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
	}
	return nil
}

// send sends a message, after posting a receive buffer for the answer.
func (s *sleeper) send() error {
	if _, err := s.end.qp.PostRecv([]verbs.RecvWR{{ID: recvID, SGEs: []verbs.SGE{s.end.sge(0, 64)}}}); err != nil {
		return err
	}
	_, err := s.end.qp.PostSend([]verbs.SendWR{send(wrongID, s.end.sge(64, 64))})
	return err
}

// await waits for a message. It polls, arms the CQ, polls again and sleeps.
func (s *sleeper) await() error {
	for armed := false; ; armed = !armed {
		got, err := s.poll()
		if got || err != nil {
			return err
		}
		if !armed {
			err = s.end.recvs.cq.Arm(false)
		} else {
			err = s.sleep()
		}
		if err != nil {
			return err
		}
	}
}

// poll polls until it finds a received message or the CQ is empty.
func (s *sleeper) poll() (message bool, err error) {
	var wcs [1]verbs.WC
	for {
		n, err := s.end.recvs.cq.Poll(wcs[:])
		if n == 0 || err != nil {
			return false, err
		}
		if err := wcs[0].Err(); err != nil {
			return false, err
		}
		if wcs[0].ID == recvID {
			return true, nil
		}
	}
}

func (s *sleeper) sleep() error {
	s.sleeps++
	woken, err := readable(s.channel.FD(), waitLimit)
	if err != nil {
		return err
	}
	if !woken {
		return fmt.Errorf("not woken from sleep %d", s.sleeps)
	}
	for {
		_, ok, err := s.channel.Next()
		if !ok || err != nil {
			return err
		}
		s.end.recvs.cq.AckEvents(1)
	}
}
