// Package faultcq simulates an RDMA device for tests of completion events. It has
// completion queues and channels, but no queue pairs. Like real devices and drivers, it
// drops, duplicates, delays and merges events, and raises spurious ones. The same seed
// gives the same faults.
//
// Device.Advance advances the virtual time. The descriptor of a channel is real.
//
// Any goroutine may call the methods.
package faultcq
