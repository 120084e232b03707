// Package verbstest is the conformance suite for providers: what package verbs
// promises, tried on a real device object through connections made with package
// cm. Any provider can be put through it:
//
//	func TestConformance(t *testing.T) {
//		open := func(t *testing.T) cm.Provider { ... }
//		verbstest.Run(t, open, verbstest.Options{Addr: addr})
//	}
//
// Every case opens a provider of its own, does its work from the goroutine of
// the test, and closes all it made, bottom up; that the provider then closes
// without ErrBusy is part of each case, as is that no completion is left over.
// Where the device has ProgressManual everything runs under both progress modes.
//
// No case waits for time to pass. Waits end with the event that is waited for,
// or fail after a limit that only a hang reaches. Cases are left out only by a
// capability that the device says it lacks.
//
// # Reading a case
//
// A rig is the device under test with what one test process needs around it. A
// pair is two connected ends on it, a and b; a connected, b listened. Each end
// has memory of its own, a CQ for its sends and one for its receives. Whatever
// waits calls rig.until, which drives all of them.
package verbstest
