// Package faultcq is a simulated RDMA device for tests of completion events. It has
// completion queues and channels, but no queue pairs. It drops, duplicates, delays and
// merges events, and raises spurious events, as real devices and drivers do. The faults
// are random. The same seed gives the same faults.
//
// Time is virtual: each call of Device.Advance advances it by one tick. The descriptor of
// a channel is a real file descriptor. It is readable as long as the channel has an
// event.
//
// Methods may be called from any goroutine.
package faultcq
