// Package rdmaloop is the map of an event-loop library for RDMA. It holds no
// code; these packages do, from the top down:
//
//	reactor        engine, loops and callbacks: what most programs use
//	poller         readiness of descriptors, by epoll
//	cq             draining completion queues and sleeping without losing a wake-up
//	cm             connections: listen, connect, accept, reject, private data
//	verbs          the vocabulary (devices, queue pairs, work requests) and the
//	               seam behind which a provider stands
//	provider       opens a provider by name
//	provider/soft  an RDMA device in software: no hardware, no privileges, no cgo
//	provider/rdmacore
//	               RDMA devices, by librdmacm and libibverbs; build tag rdmacore
//
// A program opens a provider, writes a handler and gives both to reactor.New;
// examples/echo is one that is complete. cm, cq, poller and verbs can be used
// without the reactor by who has a loop already.
//
// ARCHITECTURE.md tells how the packages work together and where a change
// belongs.
package rdmaloop
