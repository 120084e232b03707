// Package rdmacore is the provider for RDMA devices that the kernel drives: network
// cards for RoCEv2 and iWARP, and the software devices rxe and siw. It is a layer
// over libibverbs and librdmacm, and the only package with cgo.
//
// It is compiled with the build tag rdmacore, on Linux and with cgo, and needs the
// Debian packages libibverbs-dev and librdmacm-dev (rdma-core 35 or later) to be
// built, and libibverbs1, librdmacm1 and ibverbs-providers to run. Without the tag
// the package is empty.
//
// # Crossing into C
//
// A crossing costs more than the work of one request, so requests cross in batches:
// one call posts all that a caller hands in, one call fetches as many completions as
// fit. The records that cross have no pointers in them, C keeps no pointer to Go
// memory, and there are no callbacks. Registered memory lies outside the Go heap or
// is pinned.
//
// # Places
//
// A request occupies a place on its queue until its completion is polled, so that a
// full queue is always ErrQueueFull, on any device. To find the place again, this
// package gives the device its own work request ID with each request; WC.ID has the
// caller's. Some devices leave completions of a closed queue pair on the CQ; these
// are dropped.
//
// # Connections
//
// librdmacm does not support destroying a queue pair while an event of its ID is
// fetched. One lock per event channel, held only over calls that do not wait,
// excludes that. An event is copied and acknowledged before Next returns, so that no
// Destroy ever waits for an event. The kernel leaves the minimal RNR timer of a
// connection at 655 ms; here it is 0.64 ms.
//
// librdmacm has these limits. Loopback addresses have no route. Private data arrives
// zero-padded. A refusal by the application can be distinguished from other refusals
// only by its private data, if that is not all zero. A refusal for lack of resources
// is sent as a refusal by the application, without private data.
//
// The libraries keep one context for each device and process. A process that opens
// the provider twice gets every asynchronous event only once.
//
// # Signals and asynchronous events
//
// A call that a signal has interrupted is repeated. No asynchronous event is lost:
// for each object, one event of each type waits until NextAsync fetches it.
//
// # Child processes
//
// Open does not call ibv_fork_init(3). It is not needed to run commands: package
// os/exec makes a child that shares the parent's memory until it executes the
// command, and that does not write to it (CLONE_VM and CLONE_VFORK, see clone(2)). No
// page is copied, and nothing changes for the device. Two kinds of children do get a
// copy of the memory: a child in a new user namespace (syscall.CLONE_NEWUSER), and a
// child that C code of the program makes with fork(2). Linux 5.12 and later copies
// registered pages for the child and leaves the parent's pages in place. On older
// kernels, the first of the two processes that writes to such a page gets a new page,
// which the device does not know. A program that needs such children on an older
// kernel sets IBV_FORK_SAFE=1 in its environment before it starts: the libraries then
// call ibv_fork_init, each registration costs another system call, and the child has
// no access to registered memory, so that it may do nothing but execute. Descriptors
// of devices are closed in the child when it executes.
//
// # A device that is removed
//
// Every ID that is bound to the device gets cm.DeviceRemoval. A program without such
// an ID is not told; a program that must know keeps a listener on the device. In
// package reactor, connections and listeners of the device end with
// reactor.ErrDeviceRemoved.
//
// The program then shuts its engine down and closes the Provider, which also ends its
// connections on other devices. When the device returns, Open finds it. Until then
// Open returns the *verbs.FeatureError of a host without devices, if there is no
// other device. The removal of a Soft-RoCE device (rdma link delete) does not end
// before that Close, or the end of the process: the driver waits until nobody has the
// device open. The drivers of network cards do not wait.
package rdmacore
