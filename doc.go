// Package rdmaloop is the root of an event-loop library for RDMA. It has no code. The
// packages are, from the top down:
//
//	gnetrdma       serves handlers of gnet over RDMA
//	stream         streams of bytes by the protocol of rsocket(7): callbacks, and net.Conn
//	reactor        engine, loops, callbacks; most programs use this package
//	poller         waiting for descriptors with epoll
//	cq             polling completion queues, sleeping without missing a completion
//	cm             connections: listen, connect, accept, reject, private data
//	verbs          the terms (devices, queue pairs, work requests) and the
//	               interfaces that a provider implements
//	monitor        offers the counters of a program to the command rdmaloop top
//	provider       opens a provider by name
//	provider/soft  an RDMA device in software: no hardware, no privileges, no cgo
//	provider/rdmacore
//	               RDMA devices of the kernel, with librdmacm and libibverbs
//
// A program opens a provider, implements a Handler and passes both to reactor.New. The
// Example below and examples/echo are complete programs. A program that has an event
// loop of its own can use cm, cq, poller and verbs without the reactor.
//
// ARCHITECTURE.md describes how the packages work together, and the rules for changes.
package rdmaloop
