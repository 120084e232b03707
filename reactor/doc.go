// Package reactor is an event loop for RDMA. A loop owns connections, their
// completion queues and their memory, and calls a Handler when something happens: a
// peer asks to be let in, a connection is open, a message came, an operation ended, a
// connection closed.
//
//	type echo struct{ reactor.BaseHandler }
//
//	func (echo) OnMessage(c *reactor.Conn, msg reactor.Message) {
//		if err := c.Send(msg.Data()); err != nil {
//			c.Abort(err) // the peer sends on without taking the answers
//		}
//	}
//
//	engine, err := reactor.New(provider, echo{}, nil)
//	err = engine.Start()
//	listener, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:7471"))
//
// An Engine runs loops on goroutines of their own; NewLoop makes one that a program
// drives itself. Connections are reliable ones (RC); datagrams are left to packages
// cm and verbs.
//
// # Who may call
//
// A loop and all that belongs to it - connections, buffers, timers, registrations -
// are used on its own goroutine only, which is where callbacks run. There are no
// locks on it. From elsewhere only the methods that say so may be called; everything
// else goes through Loop.Post. An Engine, a Listener and a ConnRequest may be used
// from anywhere. A callback that takes long holds up its whole loop.
//
// # One turn
//
//	clock        read every few turns, not every turn
//	completions  up to Config.Batch of each device: OnMessage, OnCompletion
//	descriptors  connection events, device events, foreign descriptors
//	posted       functions from elsewhere
//	timers       After, OnTick, deadlines, keepalive
//	leave        connections on their way out: OnClose
//	flush        what callbacks sent, with one doorbell for each connection
//
// A turn that found nothing is followed by another one, or by a sleep, as the
// IdlePolicy says. Before it sleeps a loop first says so, then arms its completion
// queues, then polls them once more and looks into its mailbox; only then does it
// wait. That order, in Loop.prepare, is what keeps wake-ups from being lost.
//
// A loop that must never sleep needs a processor of its own: IdleBusy together with
// Config.CPUs, and a GOMAXPROCS that leaves two for the rest of the program and the
// garbage collector. Where processors are fewer than loops, IdleEvent is the fastest.
// Sending and receiving a message allocates no Go memory.
//
// # The life of a connection
//
//	Engine.Dial                      OnConnectRequest
//	    |                                   | Accept
//	Dialing                                 |
//	    |                                   |
//	Connecting <----------------------------+        queue pair made,
//	    |                                            receives posted
//	    | established: OnOpen
//	    |
//	  Open ----- Close -----> Draining               sends to be confirmed
//	    |                         |
//	    | Abort, failure,         | confirmed, failure, DrainTimeout
//	    | peer disconnects        |
//	    +-----> Closing <---------+                  disconnected by us,
//	               |                                 queues being flushed
//	               | flushed: OnClose
//	            Parting                              peer's goodbye to come
//	               |
//	            Closed                               all given back
//
// Dialing and Connecting may also end in OnDialError or OnAcceptError. Every state
// but Open and Closed has a limit in time: ConnectTimeout, DrainTimeout, one second
// for the flush, DrainTimeout again for the goodbye. Receives that complete before
// the connection is established are held until OnOpen has run.
//
// A connection is placed on a loop before it has a queue pair, and stays there. It is
// refused if no completion queue of the loop can have room for all completions that
// the connection may have outstanding, so a completion queue never overruns.
//
// # Sending
//
// Nothing that was accepted - a nil error - is lost silently: it is delivered and
// confirmed, or the connection ends with an error. Conn.Stats has the numbers, and
// OnCompletion the fate of each operation that asked for it.
//
// A full send queue is no error of the connection: the call returns ErrWouldBlock and
// takes nothing, and OnWritable follows when half of the queue is free. Only every
// Config.SignalEvery-th send asks the device for a completion, which confirms all
// before it; so the buffers of the last few sends of an idle connection are returned
// late.
//
// # The life of a buffer
//
// Buffers are cut from registered memory outside the Go heap, Config.MaxMessage bytes
// each. The handler may use a received message until OnMessage returns, and longer
// with Message.Keep. A buffer that was kept, or leased with Loop.Lease, belongs to
// its holder until Release, or until SendBuffer accepts it.
//
// The memory grows with the number of buffers in use. Unused memory goes back to the
// system within 40 s of its last use. With the software device these are the pages of
// free buffers. Other devices pin their pages, so there a piece of up to 16 MiB goes
// back when none of its buffers is in use.
package reactor
