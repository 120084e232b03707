// Package rdmacore is the provider for the RDMA devices of the kernel: network cards for
// RoCEv2 and iWARP, and the software devices rxe and siw. It calls the C libraries
// libibverbs and librdmacm. No other package of the library uses cgo.
//
// It needs the build tag rdmacore, Linux and cgo. Without the tag it is empty. In
// Debian, the build needs the packages libibverbs-dev and librdmacm-dev (rdma-core 35 or
// later). Programs need libibverbs1, librdmacm1 and ibverbs-providers at run time.
//
// # Calls into C
//
// A call into C costs more than the work for one request, so each call transfers a
// batch. The structs that Go and C exchange have no pointers. C keeps no pointer to Go
// memory and calls no Go function. Registered memory is outside the Go heap or is
// pinned.
//
// # Places
//
// A queue has one place for each request that it can hold. A request occupies a place
// until its completion is polled. If there is no free place, posting fails with
// ErrQueueFull. The work request ID of the device contains the number of the place. The
// caller gets its own ID in WC.ID. Completions of a closed queue pair are dropped.
//
// # Connections
//
// A queue pair must not be destroyed while librdmacm fetches an event of its ID. Each
// event channel has a lock to prevent that. The lock is held only during calls that do
// not wait. Next copies and acknowledges an event before it returns, so Destroy never
// waits for an event. The kernel sets the minimum RNR timer of a connection to 655 ms;
// this package sets 0.64 ms.
//
// librdmacm has these limits:
//
//   - Loopback addresses can not be used.
//   - Private data arrives padded with zeros.
//   - A reject whose private data is all zero does not count as a reject by the
//     application.
//   - cm.ID.RejectNoResources sends the reason RejectConsumer.
//
// The libraries keep one context for each device and process. If a process opens the
// provider twice, each asynchronous event arrives at only one of the two providers.
//
// # Signals and asynchronous events
//
// A call that a signal has interrupted is repeated. An asynchronous event waits until
// NextAsync fetches it. A newer event of the same type and object replaces the waiting
// event.
//
// # Child processes
//
// Commands of package os/exec need no preparation: their process shares the parent's
// memory and does not write to it (CLONE_VM and CLONE_VFORK, clone(2)).
//
// Two kinds of children get a copy of the memory: a child in a new user namespace
// (syscall.CLONE_NEWUSER), and a child that C code creates with fork(2). Linux 5.12 and
// later leave registered pages with the parent. On older kernels, a write of the parent
// may replace a page without notice to the device. There, a program with such children
// starts with IBV_FORK_SAFE=1 in its environment. Then each registration costs another
// system call, and the child may only execute another program.
//
// # A device that is removed
//
// When a device is removed, every ID on the device gets cm.DeviceRemoval. A program that
// has to know keeps a listener on the device. In package reactor, connections and
// listeners of the device end with reactor.ErrDeviceRemoved.
//
// The program then shuts its engine down and closes the Provider. Its connections on
// other devices end, too. When the device has returned, Open finds it. The removal of a
// Soft-RoCE device (rdma link delete) waits until no process has the device open.
package rdmacore
