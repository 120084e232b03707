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
// (ibv_req_notify_cq(3)). A completion that was added before raises no event. The second
// poll therefore follows the arming. This poll covers every CQ, because each CQ may hold
// such a completion.
// A CQ counts as armed from Arm until its event is consumed. During that time the event
// is still to come, or waits in the channel. Arming the CQ again would be useless, and
// would cost a doorbell, on some devices even a system call. Other devices ignore a
// second arming until the event has been taken. Arm therefore skips a CQ that counts as
// armed. Even if the second poll finds completions many times in a row, the CQ is armed
// only once.
//
// Each call that acknowledges events takes a lock in the device's library. The group
// therefore acknowledges many events with one call. Before the group closes a CQ, it
// acknowledges all events of the CQ, because a CQ with unacknowledged events can not be
// destroyed (ibv_get_cq_event(3)).
//
// An event does not prove that its CQ has completions: an earlier poll may have taken
// them already. The group therefore uses an event only to record that the CQ is not
// armed any more.
//
// # The safety timeout
//
// Some devices and drivers lose events. An owner must never sleep without a time limit.
// If the limit ends a sleep and the polls after it find completions, the owner calls
// Group.Rescued. Rescued counts the loss and makes the next Arm arm every CQ.
//
// # Overruns
//
// If a CQ has no room for a completion, the CQ becomes unusable. Before the owner creates
// a QP, it therefore reserves places for all completions that the QP can have
// outstanding; see Queue.Reserve.
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
