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
//
// # Signals and asynchronous events
//
// A call that a signal has interrupted is repeated. No asynchronous event is lost: one
// of each type waits for each object until NextAsync fetches it.
//
// # Child processes
//
// Open does not call ibv_fork_init(3). It is not needed to run commands: package os/exec
// makes a child that shares the parent's memory until it executes the command, and that
// touches none of it (CLONE_VM and CLONE_VFORK, see clone(2)). No page is copied, and
// nothing changes for the device. Two kinds of children do get a copy of the memory:
// one in a user namespace of its own (syscall.CLONE_NEWUSER), and one that C code of the
// program makes with fork(2). Linux 5.12 and later copies registered pages for the child
// and leaves the parent's in place. Before that, the first of the two that writes to such
// a page gets another page than the device has. A program that needs such children there
// sets IBV_FORK_SAFE=1 in its environment before it starts: the libraries then call
// ibv_fork_init, each registration costs another system call, and the child has no
// access to registered memory, so that it may do nothing but execute.
// Descriptors of devices are closed in the child when it executes.
//
// # A device that is removed
//
// Every ID that is bound to the device gets cm.DeviceRemoval, so that a program without
// one is not told: one that must know keeps a listener on the device. In package
// reactor, connections and listeners of the device end with reactor.ErrDeviceRemoved.
//
// The program then shuts its engine down and closes the Provider, and with it what it has
// on other devices. When the device is back, Open finds it; until then, if there is no
// other, Open returns the *verbs.FeatureError of a host without devices. The removal of
// a Soft-RoCE device (rdma link delete) does not end before that Close, or the end of
// the process: the driver waits until nobody has the device open. Those of network
// cards do not wait.
package rdmacore
