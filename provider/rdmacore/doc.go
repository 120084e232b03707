// Package rdmacore is the provider for the RDMA devices of the kernel: network cards for
// RoCEv2 and iWARP, and the software devices rxe and siw. The package calls the C
// libraries libibverbs and librdmacm. It is the only package of this module that uses
// cgo.
//
// It is compiled with the build tag rdmacore, on Linux and with cgo. To build it, the
// Debian packages libibverbs-dev and librdmacm-dev (rdma-core 35 or later) are needed,
// and to run it, the packages libibverbs1, librdmacm1 and ibverbs-providers. Without the
// build tag the package is empty.
//
// # Calls into C
//
// A call into C costs more than the work for one request, so each call transfers a batch:
// one call posts all requests that a caller passes, and one call fetches as many
// completions as the caller's slice can hold. The structs that Go and C exchange have no
// pointers, C keeps no pointer to Go memory, and there are no callbacks. Registered
// memory is outside the Go heap or is pinned.
//
// # Places
//
// A queue has one place for each request that it can hold. A request occupies a place on
// its queue until its completion is polled. A request for which there is no place fails
// with ErrQueueFull, on every device. The work request ID that this package gives to the
// device contains the number of the place. The completion that the caller gets has the ID
// of the caller in WC.ID. Some devices leave completions of a closed queue pair on the
// CQ; this package drops such completions.
//
// # Connections
//
// A queue pair must not be destroyed while librdmacm fetches an event of the ID of that
// queue pair. A lock for each event channel prevents that. The lock is held only during
// calls that do not wait. Next copies and acknowledges an event before it returns, so
// that Destroy never waits for an event. The kernel sets the minimum RNR timer of a
// connection to 655 ms; this package sets 0.64 ms.
//
// librdmacm has these limits:
//
//   - Loopback addresses can not be used.
//   - Private data arrives padded with zeros.
//   - A reject counts as a reject by the application only if it has private data that is
//     not all zero.
//   - A reject for lack of resources is sent as a reject by the application, without
//     private data.
//
// The libraries keep one context for each device and process. If a process opens the
// provider twice, each asynchronous event arrives at only one of the two.
//
// # Signals and asynchronous events
//
// A call that a signal has interrupted is repeated. No asynchronous event is lost: for
// each object, one event of each type waits until NextAsync fetches it.
//
// # Child processes
//
// Open does not call ibv_fork_init(3). A program that runs commands with package os/exec
// does not need that call: package os/exec creates a child that shares the parent's
// memory until it executes the command and does not write to that memory (CLONE_VM and
// CLONE_VFORK, clone(2)). No page is copied, and nothing changes for the device.
//
// Two kinds of children do get a copy of the memory: a child in a new user namespace
// (syscall.CLONE_NEWUSER), and a child that C code of the program creates with fork(2).
// Linux 5.12 and later copies registered pages for the child and leaves the parent's
// pages in place. On older kernels, the first of the two processes that writes to such a
// page gets a new page, which the device does not know. A program that needs such
// children on an older kernel sets IBV_FORK_SAFE=1 in its environment before it starts.
// The libraries then call ibv_fork_init. As a consequence, each registration costs
// another system call, and the child has no access to registered memory: the child may do
// nothing but execute another program. When it does, the kernel closes the descriptors of
// devices in the child.
//
// # A device that is removed
//
// When a device is removed, every ID that is bound to the device gets cm.DeviceRemoval. A
// program without such an ID gets no event. A program that has to know about the removal
// keeps a listener on the device. In package reactor, connections and listeners of the
// device end with reactor.ErrDeviceRemoved.
//
// The program then shuts its engine down and closes the Provider, which also ends its
// connections on other devices. When the device has returned, Open finds it. Until then,
// if there is no other device, Open returns the *verbs.FeatureError that it returns on a
// host without devices. For a Soft-RoCE device, the removal (rdma link delete) ends only
// when the program has closed the Provider or has ended, because the driver waits until
// no process has the device open. The drivers of network cards do not wait.
package rdmacore
