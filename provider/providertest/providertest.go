package providertest

import (
	"net/netip"
	"testing"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Options has the parameters of Run.
type Options struct {
	// Addr is an address of this host on the device, used by both ends of every
	// connection. The soft device can use 127.0.0.1.
	Addr netip.Addr

	// Credentials is true if IDs know the process at the other end. See
	// cm.ID.Credentials.
	Credentials bool

	// RecvTime is true if WC.Time is known of the messages of a connection. Then the device
	// has verbs.Caps.RecvTime.
	RecvTime bool

	// OneVector makes both ends of a connection use the same completion vector. Otherwise
	// they use the first and the last one.
	OneVector bool
}

// Run runs the suite against a provider. Each case calls open() and closes the provider
// at the end. If open() fails, it must report the failure to its t.
func Run(t *testing.T, open func(t *testing.T) cm.Provider, opts Options) {
	t.Helper()
	caps := capabilities(t, open)
	for _, progress := range modes(caps) {
		t.Run(progress.String(), func(t *testing.T) {
			for _, topic := range topics() {
				t.Run(topic.name, func(t *testing.T) {
					topic.run(t, caps, func(t *testing.T) *rig { return newRig(t, open, opts, progress) })
				})
			}
		})
	}
}

func capabilities(t *testing.T, open func(t *testing.T) cm.Provider) verbs.Caps {
	t.Helper()
	c := checks{t}
	provider := open(t)
	devices, err := provider.Devices()
	c.NoError(err)
	c.NotEmpty(devices)
	caps := devices[0].Caps()
	c.NoError(provider.Close())
	return caps
}

func modes(caps verbs.Caps) []verbs.Progress {
	if caps.ProgressManual {
		return []verbs.Progress{verbs.ProgressAuto, verbs.ProgressManual}
	}
	return []verbs.Progress{verbs.ProgressAuto}
}

// A topic is a group of cases that need the same capability.
type topic struct {
	name string
	// Returns the name of the capability if the device lacks it, and otherwise "". Nil
	// means that no capability is needed.
	missing func(verbs.Caps) string
	cases   []testCase
}

// A testCase is one test with its own rig.
type testCase struct {
	name string
	run  func(r *rig)
}

func (tp topic) run(t *testing.T, caps verbs.Caps, rig func(t *testing.T) *rig) {
	if tp.missing != nil {
		skipUnless(t, caps, tp.missing)
	}
	for _, c := range tp.cases {
		t.Run(c.name, func(t *testing.T) { c.run(rig(t)) })
	}
}

func topics() []topic {
	return []topic{
		{"device", nil, deviceCases()},
		{"life", nil, lifeCases()},
		{"connection", nil, connectionCases()},
		{"disconnect", nil, disconnectCases()},
		{"negotiation", nil, negotiationCases()},
		{"memory", nil, memoryCases()},
		{"states", nil, stateCases()},
		{"send", nil, sendCases()},
		{"queue", nil, queueCases()},
		{"write", nil, writeCases()},
		{"write with immediate", lacksWriteImm, writeImmCases()},
		{"read", nil, readCases()},
		{"atomic", lacksAtomics, atomicCases()},
		{"order", nil, orderCases()},
		{"fault", nil, faultCases()},
		{"atomic fault", lacksAtomics, atomicFaultCases()},
		{"memory window", lacksMemoryWindows, windowCases()},
		{"memory window fault", lacksMemoryWindows, windowFaultCases()},
		{"rnr", nil, rnrCases()},
		{"flush", nil, flushCases()},
		{"completion queue", nil, cqCases()},
		{"completion channel", nil, channelCases()},
		{"shared receive queue", lacksSRQ, srqCases()},
		{"datagram", lacksUD, udCases()},
		{"counters", nil, counterCases()},
		{"credentials", nil, credentialsCases()},
	}
}

// skipUnless skips a test if the device lacks a capability.
func skipUnless(t *testing.T, caps verbs.Caps, missing func(verbs.Caps) string) {
	t.Helper()
	if what := missing(caps); what != "" {
		t.Skipf("the device does not have the capability: %s", what)
	}
}

func lacksAtomics(c verbs.Caps) string  { return unless(c.Atomics, "atomics") }
func lacksWriteImm(c verbs.Caps) string { return unless(c.WriteImm, "write with immediate") }
func lacksSRQ(c verbs.Caps) string      { return unless(c.SRQ, "shared receive queues") }
func lacksUD(c verbs.Caps) string       { return unless(c.UD, "unreliable datagrams") }

func lacksRecvModes(c verbs.Caps) string { return unless(c.RecvModes, "receive modes") }

func lacksDisconnectData(c verbs.Caps) string {
	return unless(c.DisconnectData, "private data of a disconnect request")
}

func lacksMemoryWindows(c verbs.Caps) string {
	return unless(c.MemoryWindows, "memory windows")
}

func unless(has bool, what string) string {
	if has {
		return ""
	}
	return what
}
