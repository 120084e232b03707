// Package cq takes completions from completion queues. It arranges polling and sleeping
// so that the owner never sleeps while a completion waits.
//
// A Group is a completion channel of one device with the Queues on it. One goroutine
// owns a Group and its Queues, and only it may call their methods. The owner repeats
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
// # Why this order
//
// Arming a CQ requests one event, for the first completion that is added after the call
// (ibv_req_notify_cq(3)). A completion that was added before raises no event. The second
// poll therefore follows the arming. It covers every CQ, because each of them may hold
// such a completion.
//
// A CQ counts as armed from Arm until its event is consumed. During that time either the
// device is armed or an event waits in the channel. Arming again would change nothing
// and would cost a doorbell, on some devices a system call. On other devices it has no
// effect until the event has been taken. Arm therefore skips a CQ that counts as armed,
// and an owner whose second poll finds work many times in a row arms once.
//
// To acknowledge an event takes a lock in the device's library, and a CQ can not be
// destroyed before all its events are acknowledged (ibv_get_cq_event(3)). Events are
// therefore counted and acknowledged many at a time; the rest are acknowledged before
// the CQ is closed.
//
// An event says that there may be completions. Polls before it may have taken them
// already. The CQ that an event names is only used to mark that CQ as not armed.
//
// # Spinning
//
// An owner that polls again instead of sleeping may use Queue.Spin. If the CQ can wait
// inside the provider, Spin waits there for a short time. Otherwise it is the same as
// Poll.
//
// # The safety timeout
//
// Some devices and drivers lose events. An owner must never sleep without a time limit.
// If the limit ends a sleep and the polls after it find completions, the owner calls
// Group.Rescued. It counts the loss, and the next Arm arms every CQ.
//
// # Overruns
//
// A completion for which the CQ has no room makes the CQ unusable. The owner reserves
// places for all completions that a QP can have outstanding before it creates the QP; see
// Queue.Reserve.
package cq
