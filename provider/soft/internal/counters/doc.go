// Package counters has the counters of a device, by the names that Linux has for the
// counters of RDMA devices. The documentation of provider/soft describes each of them.
package counters
