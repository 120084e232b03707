// Package counters has the counters of a device. Their names are those of Linux for RDMA
// devices. Package soft describes each.
package counters
