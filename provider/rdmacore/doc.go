// Package rdmacore is the provider for RDMA devices that the kernel drives:
// network cards for RoCEv2 and iWARP, and the software devices rxe and siw. It is
// a layer over libibverbs and librdmacm, and the only package with cgo.
//
// It is compiled with the build tag rdmacore, on Linux and with cgo, and needs
// the Debian packages libibverbs-dev and librdmacm-dev (rdma-core 35 or later)
// to be built, and libibverbs1, librdmacm1 and ibverbs-providers to run. Without
// the tag the package is empty.
//
// # Crossing into C
//
// A crossing costs more than the work of one request, so requests cross in
// batches: one call posts all that a caller hands in, one call fetches as many
// completions as fit. What crosses has no pointers in it, C keeps no pointer of
// Go's, and there are no callbacks. Registered memory lies outside the Go heap
// or is pinned.
//
// # Places
//
// A request has its place on a queue until its completion is polled, so that a
// full queue is always ErrQueueFull, on any device. To know the place, the device
// is given a number of ours with each request; the caller's comes back in WC.ID.
// Completions of a queue pair that was closed, which some devices leave on the
// CQ, are dropped.
//
// # Connections
//
// librdmacm is not made for a queue pair that is destroyed while an event of its
// ID is fetched. One lock per event channel, held over calls that do not wait,
// keeps the two apart. An event is copied and acknowledged before Next returns,
// so that no Destroy ever waits for one. The kernel leaves the minimal RNR timer
// of a connection at 655 ms; here it is 0.64 ms.
//
// What librdmacm can not do differently: loopback addresses do not lead
// anywhere, private data arrives zero-padded, and an application's refusal can
// be told from others only by its private data, if that is not all zero. A refusal
// for want of resources leaves as one of the application, without private data.
//
// The libraries keep one context for each device and process. A process that
// opens the provider twice gets every asynchronous event only once.
package rdmacore
