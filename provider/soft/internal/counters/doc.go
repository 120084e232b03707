// Package counters has the counters of a device, with the names that Linux has for RDMA
// devices.
package counters
