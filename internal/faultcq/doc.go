// Package faultcq is an RDMA device in memory for tests: it has completion
// queues and channels, no queue pairs, and does to events what devices and
// drivers have been seen to do. It drops, duplicates, delays and merges them
// and raises some for nothing, by the roll of a seeded die, so that a run can
// be repeated.
//
// Time is virtual: Device.Advance moves it. The descriptor of a channel is
// real, and readable as long as an event waits in the channel.
//
// Methods may be called from any goroutine.
package faultcq
