// Package counters has the counters of a device. Counters that Linux has too for RDMA
// devices have the same names.
package counters
