// Package cq takes completions from completion queues. It orders polling, arming and
// sleeping so that the owner never sleeps while a completion waits.
//
// A Group is a completion channel of one device with its Queues. One goroutine owns a
// Group and its Queues, and only that goroutine may call their methods. The owner repeats
// these steps:
//
//	        ┌──────────────────────────────────────────────┐
//	        ▼                                              │
//	every Queue.Poll ── found some? ── yes ── handle it ───┤
//	        │ no                                           │
//	        ▼                                              │
//	Group.Arm:                                             │
//	  1. arm every CQ that is not armed                    │
//	  2. poll every CQ again ── found some? ── yes ─ busy ─┤
//	        │ no                                           │
//	        ▼                                              │
//	sleep until FD is readable, or the safety timeout      │
//	        │                                              │
//	        ▼                                              │
//	Group.Consume: take the events and acknowledge them ───┘
//
// Group.Wait does the steps from Group.Arm to Group.Consume, for programs without an
// event loop.
//
// # Why this order
//
// Arming a CQ requests one event, for the first completion that is added after the call
// (ibv_req_notify_cq(3)). An earlier completion raises no event. Therefore every CQ is
// polled after the arming.
//
// A CQ counts as armed from Arm until its event is consumed. Arm skips such a CQ,
// because a second arming would be useless. It would cost a doorbell, on some devices
// even a system call.
//
// The group acknowledges many events with one call, because each call takes a lock in
// the device's library. A CQ with unacknowledged events can not be destroyed
// (ibv_get_cq_event(3)), so the group acknowledges them before it closes the CQ.
//
// An event only means that its CQ is not armed any more. An earlier poll may have taken
// the completions of the CQ.
//
// # The safety timeout
//
// An owner must never sleep without a time limit, because some devices and drivers lose
// events. If the limit ends a sleep and the next polls find completions, the owner calls
// Group.Rescued. Rescued counts the loss, and the next Arm arms every CQ.
//
// # Overruns
//
// If a CQ has no room for a completion, the CQ becomes unusable. So the owner reserves
// places for all completions of a QP before the QP is created: see Queue.Reserve.
//
// The file example_test.go has a program that sends a message over a connection, and
// sleeps while there is no completion. The tests run it.
package cq

// The files of this package, in reading order:
//
//	config.go        Config
//	stats.go         Stats
//	reservations.go  places of a CQ that are reserved for completions
//	queue.go         Queue: polling a CQ, its events
//	depth.go         reserving places, resizing a CQ
//	group.go         Group: a completion channel and its queues
//	arm.go           arming all queues before a sleep, taking their events
//	wait.go          the steps of the diagram, for programs without an event loop
