// Package cq takes completions from completion queues. A program can sleep while there
// are no completions, and never sleeps while a completion waits.
//
// A Group is a completion channel of one device, and the Queues of that channel. One
// goroutine owns a Group and its Queues, and only this owner may call their methods. It may
// hand them to another goroutine between two calls. The owner repeats these steps:
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
// A program without an event loop calls Group.Wait, which does everything from Group.Arm
// to Group.Consume.
//
// # Why this order
//
// Arming a CQ requests an event for the next completion (ibv_req_notify_cq(3)). A
// completion that arrived before the arming causes no event. So every CQ is polled once
// more after it was armed.
//
// For the group, a CQ stays armed until its event is consumed. Arm skips such a CQ,
// because arming it a second time would only cost time. On some devices it would cost a
// system call.
//
// Each acknowledgement takes a lock in the device's library, so the group acknowledges
// many events with one call. A CQ with unacknowledged events can not be destroyed
// (ibv_get_cq_event(3)), so the group acknowledges the rest when a queue is closed.
//
// After an event, the CQ may be empty: an earlier poll may have taken the completions.
//
// # The safety timeout
//
// Some devices and drivers lose events, so an owner that waits for FD must never sleep
// without a time limit. The owner chooses the limit; that of Group.Wait is 100 ms. If the
// limit ends a sleep and the next polls find completions, an event was lost. The owner then
// calls Group.Rescued, and the next Arm arms every CQ.
//
// # Overruns
//
// If a CQ has no room for a completion, the CQ becomes unusable. So the owner reserves
// places for all completions of a QP before it creates the QP: see Queue.Reserve.
//
// The file example_test.go has a program that sends a message over a connection, and
// sleeps while there is no completion. The tests run it.
package cq
