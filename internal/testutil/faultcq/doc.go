// Package faultcq is an RDMA device in memory, for tests of completion events. It has
// completion queues and channels, but no queue pairs. It drops, duplicates, delays and
// merges events and raises spurious ones, as real devices and drivers do. The faults
// are random, and the same seed gives the same faults.
//
// Time is virtual: Device.Advance moves it. The descriptor of a channel is a real one,
// and is readable as long as the channel has an event.
//
// Methods may be called from any goroutine.
package faultcq
