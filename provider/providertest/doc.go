// Package providertest is the conformance suite for providers. It checks the contracts
// of package verbs through connections made with package cm. A provider's test calls
// Run:
//
//	func TestConformance(t *testing.T) {
//		open := func(t *testing.T) cm.Provider { ... }
//		providertest.Run(t, open, providertest.Options{Addr: addr})
//	}
//
// Every case opens its own provider, uses it on the goroutine of the test, and closes
// all objects in reverse order. The provider must close without ErrBusy. The case must
// have taken every completion. If the device has manual progress, all cases run twice:
// with ProgressAuto, and with ProgressManual.
//
// No case waits for a fixed time. A wait ends with the expected event, or fails after a
// time limit that only a hang reaches. A case is skipped only if the device reports that
// it lacks the capability.
//
// # Terms
//
// A rig is the device under test with the objects that all cases need. A pair is two
// connected ends on that device: end a has called Connect, and end b has accepted. Each
// end has its own memory, a CQ for its sends and a CQ for its receives. All waits use
// rig.until, which polls all CQs and the event channel of the rig.
package providertest
