// Package providertest is the conformance suite for providers. It checks that a device
// does what package verbs demands, over connections made with package cm. A provider's
// test calls Run:
//
//	func TestConformance(t *testing.T) {
//		open := func(t *testing.T) cm.Provider { ... }
//		providertest.Run(t, open, providertest.Options{Addr: addr})
//	}
//
// Every case opens its own provider and uses it on the goroutine of the test. At the end,
// the case closes all objects in reverse order and then the provider, which must not
// return ErrBusy. By then the case must have taken every completion. If the device has
// manual progress, all cases run twice: with ProgressAuto, and with ProgressManual.
//
// No case waits for a fixed time. A wait ends with the expected event, or fails after a
// limit that only a hang reaches. A case is skipped only if the device reports that it
// lacks a capability.
//
// # Terms
//
// A rig is the device under test, with the objects that all cases need. A pair is two
// connected ends on this device: end a has called Connect, and end b has called Accept.
// Each end has its own memory, a CQ for its sends and a CQ for its receives. All waits
// use rig.until, which polls all CQs and the event channel of the rig.
package providertest
