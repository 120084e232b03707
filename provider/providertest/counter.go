package providertest

import (
	"errors"
	"slices"
	"strings"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func counterCases() []testCase {
	return []testCase{
		{"names and ports", counterNames},
		{"traffic", counterTraffic},
	}
}

// counters returns the counters of the rig's port. If there are none, it skips the case.
func (r *rig) counters() []verbs.Counter {
	r.t.Helper()
	list, err := r.dev.Counters(r.port)
	if errors.Is(err, verbs.ErrNotSupported) {
		r.t.Skip("the driver of the device does not have the capability: counters")
	}
	r.NoError(err)
	return list
}

func counterNames(r *rig) {
	list := r.counters()
	r.NotEmpty(list)
	byName := func(a, b verbs.Counter) int { return strings.Compare(a.Name, b.Name) }
	r.True(slices.IsSortedFunc(list, byName), "%v", list)
	sameName := func(a, b verbs.Counter) bool { return a.Name == b.Name }
	r.Len(slices.CompactFunc(slices.Clone(list), sameName), len(list), "a name is there twice: %v", list)
	for _, c := range list {
		r.NotEmpty(c.Name)
	}
	before := list[0].Name
	list[0].Name = "the slice is the caller's"
	r.Equal(before, r.counters()[0].Name)

	for _, port := range []int{0, r.attr.NumPorts + 1} {
		_, err := r.dev.Counters(uint8(port))
		r.requireParamError(err, "a port that does not exist")
	}
}

// counterTraffic reads the counters while messages are sent. No count may decrease.
func counterTraffic(r *rig) {
	const messages = 16
	before := r.counters()
	p := r.pair(nil)
	read := make(chan []verbs.Counter, 1)
	go func() {
		list, _ := r.dev.Counters(r.port)
		read <- list
	}()
	for id := uint64(1); id <= messages; id++ {
		p.b.recv(id, p.b.sge(0, 64))
		p.a.post(send(id, p.a.sge(0, 64)))
		p.b.recvs.one()
		p.a.sends.one()
	}
	meanwhile := <-read
	r.notLess(before, meanwhile)
	r.notLess(meanwhile, r.counters())
}

// notLess checks that both lists have the same counters and that no count has decreased.
func (r *rig) notLess(before, after []verbs.Counter) {
	r.t.Helper()
	r.Len(after, len(before))
	for i, c := range after {
		r.Equal(before[i].Name, c.Name)
		if !c.Gauge {
			r.GreaterOrEqual(c.Value, before[i].Value, c.Name)
		}
	}
}
