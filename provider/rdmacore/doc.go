// Package rdmacore is the provider for the RDMA devices of the kernel: network cards for
// RoCEv2 and iWARP, and the software devices rxe and siw. It calls the C libraries
// libibverbs and librdmacm. No other package of the library uses cgo.
//
// A program needs rdma-core 35 or later at run time, on Debian the packages libibverbs1,
// librdmacm1 and ibverbs-providers. Open finds the libraries by their names libibverbs.so.1
// and librdmacm.so.1. To build a program, neither the libraries nor their headers are needed,
// only Linux, cgo and a C compiler; in other builds Open returns an error.
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
// until its completion is polled. When all places are occupied, posting fails with
// ErrQueueFull.
//
// The work request ID that the device gets contains the number of the place, not the
// caller's ID. When the request has completed, the package reads the caller's ID from the
// place and returns it in WC.ID. Completions of a closed queue pair are dropped.
//
// # Connections
//
// When librdmacm fetches an event of an ID, it may change the ID's queue pair. The queue
// pair must not be destroyed at the same time. So each event channel has a lock, which
// is held only during calls that do not wait.
//
// librdmacm destroys an ID only after all events of the ID are acknowledged. Next copies
// and acknowledges an event before it returns, so Destroy never waits.
//
// The kernel gives each connection a minimum RNR timer of 655 ms. This package replaces
// it by 0.64 ms, unless the program sets another value.
//
// Receive completions have no WC.Time, also on devices with completion timestamps
// (ibv_create_cq_ex(3)).
//
// librdmacm has these limits:
//
//   - Loopback addresses can not be used.
//   - Private data arrives padded with zeros.
//   - A reject counts as a reject by the application only if its private data has a byte
//     that is not zero.
//   - cm.ID.RejectNoResources sends the reason RejectConsumer.
//
// In one process, the C libraries open each device only once. If a program opens the
// provider twice, each asynchronous event arrives at only one of the two providers.
//
// # Signals and asynchronous events
//
// A call that a signal has interrupted is repeated. An asynchronous event waits until
// NextAsync fetches it. If the device reports the same event for the same object again,
// the newer event replaces the waiting event.
//
// # Child processes
//
// A program can run commands with package os/exec as usual. The new process shares the
// memory of its parent and does not write to it (CLONE_VM and CLONE_VFORK, clone(2)).
//
// Two kinds of children get a copy of the memory instead: a child in a new user
// namespace (syscall.CLONE_NEWUSER), and a child that C code creates with fork(2). On
// Linux 5.12 and later they cause no problem, because registered pages stay with the
// parent.
//
// On an older kernel, the parent may get a new page when it writes to registered memory,
// and the device would still use the old page. There, a program with such children must
// be started with IBV_FORK_SAFE=1 in its environment. Each registration then costs one
// more system call, and the children must do nothing but execute another program.
//
// # A device that is removed
//
// When a device is removed, every ID on the device gets cm.DeviceRemoval. A program that
// needs the event even without connections keeps a listener on the device. In package
// reactor, connections and listeners of the device end with reactor.ErrDeviceRemoved.
//
// The program then shuts its engine down and closes the provider. Its connections on
// other devices end, too. When the device is back, Open finds it. The command that
// removes a Soft-RoCE device, "rdma link delete", waits until no process has the device
// open.
package rdmacore
