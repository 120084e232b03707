// Package cq takes completions from completion queues without ever sleeping
// past one.
//
// A Group is a completion channel of one device with the Queues on it. One
// goroutine owns a Group and its Queues; only it may call their methods. It
// takes turns:
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
//	Group.Consume: take the events, give them back in bulk ┘
//
// # Why in this order
//
// Arming asks for one event, for the first completion that is added after it
// (ibv_req_notify_cq(3)). A completion that came before raises none, and
// nothing tells that it came. So the second poll follows the arming, and covers
// every CQ: each of them may have been the one.
//
// A CQ is armed from Arm until an event of it is consumed; meanwhile either the
// device is armed or an event waits in the channel. Arming such a CQ again would
// cost a doorbell, on some devices a system call, and would change nothing; on
// others it has no effect until the event has been taken. It is left out, so an
// owner that finds work again and again in its second poll arms once.
//
// Giving an event back takes a lock in the device's library, and a CQ can not be
// destroyed while one is missing (ibv_get_cq_event(3)). Events are counted and
// given back many at a time, and the rest before the CQ is closed.
//
// An event says that there may be completions, not that there are: the polls
// of an earlier turn may have taken them. No meaning is given to which CQ an
// event names, beyond that this one has to be armed again.
//
// # Spinning
//
// An owner that polls on instead of sleeping may let the provider do so:
// Queue.Spin waits a little inside a CQ that can. Poll is as good for others.
//
// # The safety timeout
//
// Devices and their drivers have lost events. Never sleep without a limit: when
// the limit ends a sleep and the polls then find completions, call
// Group.Rescued. It counts the loss and has every CQ armed anew.
//
// # Overruns
//
// A completion that finds its CQ full breaks the CQ for good. Reserve room for
// all that a QP can have outstanding before the QP is made: see Queue.Reserve.
package cq
