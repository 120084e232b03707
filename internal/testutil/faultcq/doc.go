// Package faultcq simulates the completion queues and channels of an RDMA device. Like
// real devices and drivers, it drops, duplicates, delays and merges events, and raises
// spurious events. The same seed gives the same faults.
//
// Device.Advance advances the virtual time. The descriptor of a channel is real.
//
// Any goroutine may call the methods.
package faultcq
