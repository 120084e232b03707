package main

import "time"

// memcpyPeer returns a peer that gives a lower bound for streams and large messages on
// the local path. It copies each message into shared memory and out of it.
func memcpyPeer() *peer {
	return &peer{
		name:     "memcpy",
		variants: []variant{{"memory", "busy"}},
		fits: func(c Case) bool {
			return c.Workload == workStream || c.Workload == workPingPong && c.Size > maxCacheLine
		},
		serve:   serveRings,
		connect: connectRings,
	}
}

// A ringPair has one ring for messages and one for answers.
type ringPair struct {
	*sharedFile
	requests, answers *ring
}

func ringPairSize(s *spec) int { return ringSize(s.Size) + ringSize(s.answer()) }

func newRingPair(f *sharedFile, s *spec) *ringPair {
	return &ringPair{f, newRing(f, 0, s.Size), newRing(f, ringSize(s.Size), s.answer())}
}

// A ringServer answers the last message of each group.
type ringServer struct {
	*ringPair
	spinner
	spec       *spec
	message    []byte
	unanswered int // Number of messages since the last answer.
}

func serveRings(s *spec) (server, error) {
	f, err := makeShared(ringPairSize(s))
	if err != nil {
		return nil, err
	}
	r := &ringServer{ringPair: newRingPair(f, s), spec: s, message: make([]byte, s.Size)}
	r.run(r.serve)
	return r, nil
}

// Addr returns the name of the file.
func (r *ringServer) Addr() string { return r.file.Name() }

// Close ends the goroutine that answers messages, and closes the file.
func (r *ringServer) Close() error {
	r.end()
	return r.file.Close()
}

// serve receives a message if one has begun to arrive.
func (r *ringServer) serve() {
	if !r.requests.ready() {
		return
	}
	r.requests.take(r.message)
	if r.unanswered++; r.unanswered == r.spec.group() {
		r.unanswered = 0
		r.answers.put(r.message[:r.spec.answer()])
	}
}

func connectRings(s *spec) (client, error) {
	f, err := openShared(s.Server, ringPairSize(s))
	if err != nil {
		return nil, err
	}
	b := newBlockingClient(s)
	c := &ringCaller{newRingPair(f, s), make([]byte, s.Size), make([]byte, s.answer())}
	b.connect = func() (caller, error) { return c, nil }
	if s.Workload == workStream {
		return &ringStream{blockingClient: b, ringCaller: c}, nil
	}
	return b, nil
}

// A ringCaller implements caller on two rings.
type ringCaller struct {
	*ringPair
	message, answer []byte
}

func (r *ringCaller) roundTrip(n uint64) error {
	putNumber(r.message, n)
	r.requests.put(r.message)
	return r.await(n)
}

// await receives an answer and checks its number.
func (r *ringCaller) await(n uint64) error {
	r.answers.take(r.answer)
	return checkNumber(r.answer, n)
}

// A ringStream runs workStream on two rings.
type ringStream struct {
	*blockingClient
	*ringCaller
	sent, acked uint64
}

func (r *ringStream) drive(period time.Duration, counted *tally) error {
	group, most := uint64(r.spec.group()), uint64(r.spec.InFlight)
	begin := r.clock.now()
	for now := begin; now < begin+period || r.sent > r.acked; now = r.clock.now() {
		for ; now < begin+period && r.sent-r.acked <= most-group; r.sent += group {
			r.send(r.sent, group)
		}
		r.acked += group
		if err := r.await(r.acked); err != nil {
			return err
		}
		counted.Msgs += group
	}
	counted.Elapsed = r.clock.now() - begin
	return nil
}

// send sends a group of messages, whose numbers follow the given number.
func (r *ringStream) send(number, group uint64) {
	for n := range group {
		putNumber(r.message, number+n+1)
		r.requests.put(r.message)
	}
}
