// Package faultcq simulates the completion queues and channels of an RDMA device. Like
// real devices and drivers, it drops, duplicates, delays and merges events. It also sends
// events without a cause. The same seed gives the same faults.
//
// Time is virtual: Device.Advance advances it. The descriptor of a channel is a real
// descriptor.
//
// Any goroutine may call the methods.
package faultcq
