// Package reactor is an event loop for RDMA. A loop owns connections, their
// completion queues and their buffers. It calls the methods of a Handler when
// a peer requests a connection, when a connection is established, when a message has
// been received, when an operation has completed, and when a connection has closed.
//
//	// echo is the Handler of the server. It sends every message back.
//	type echo struct{ reactor.BaseHandler }
//
//	// A backlog has the answers of a connection that wait for room in the send queue.
//	type backlog struct{ answers [][]byte }
//
//	func (echo) OnOpen(c *reactor.Conn) { c.UserData = &backlog{} }
//
//	func (echo) OnMessage(c *reactor.Conn, msg reactor.Message) {
//		b := c.UserData.(*backlog)
//		if len(b.answers) > 0 || !send(c, msg.Data()) {
//			b.answers = append(b.answers, bytes.Clone(msg.Data()))
//		}
//	}
//
//	// OnWritable is called when half of the send queue is free again.
//	func (echo) OnWritable(c *reactor.Conn) {
//		b := c.UserData.(*backlog)
//		for len(b.answers) > 0 && send(c, b.answers[0]) {
//			b.answers = b.answers[1:]
//		}
//	}
//
//	// send reports whether the send queue had room for the message.
//	func send(c *reactor.Conn, message []byte) bool {
//		err := c.Send(message, nil)
//		if err != nil && !errors.Is(err, reactor.ErrWouldBlock) {
//			c.Abort(err)
//		}
//		return err == nil
//	}
//
//	device, err := soft.Open(nil) // the provider: an RDMA device in software
//	engine, err := reactor.New(device, echo{}, nil)
//	err = engine.Start()
//	listener, err := engine.Listen(netip.MustParseAddrPort("127.0.0.1:7471"), nil)
//
// The Handler of the engine gets the callbacks of all listeners and connections. A
// program whose connections do different things passes further Handlers to Listen or
// Dial: see ListenOptions and DialOptions.
//
// The engine gets its devices from a provider, which the program opens first and closes
// last. Package provider/soft has an RDMA device in software, which needs no hardware and
// no privileges. Package provider/rdmacore has the RDMA devices of the kernel. Package
// provider opens one of these providers by a name, which a user may choose, or the one that
// has an address. The reactor needs a cm.Provider, which has devices (verbs.Provider) and
// connection management (cm.Transport).
//
// An Engine runs each of its loops on a goroutine. NewLoop makes a loop that the program
// runs itself. Connections are of the type RC (reliable connection). For datagrams use
// packages cm and verbs.
//
// # Goroutines
//
// A loop has connections, buffers, timers and watched descriptors. The loop and everything
// that belongs to it may be used only on the goroutine of the loop. Callbacks run on
// that goroutine. A loop has no locks on its data path. While a callback runs, its loop does
// nothing else, so a callback must not block. Other goroutines may call only the methods whose
// comment allows it. The methods of an Engine, a Listener, a ConnRequest and a Region may be
// called from any goroutine. Exception: callbacks can not call Engine.Shutdown, Engine.Wait and
// Region.Close, which then return an error.
//
// For everything else, such as an answer that it has computed, another goroutine passes a
// function to Conn.PostWait, or to Conn.Post if it must not block. The connection may have
// ended by then, and the function is told so. What belongs to no connection goes to
// Loop.PostWait or Loop.Post in the same way.
//
// On amd64 and arm64, a method that belongs to a loop panics when another goroutine calls
// it. The goroutine of a loop that the program runs itself is known only while it runs, and
// methods that return what never changes are not checked. The race detector finds more: test
// the program with go test -race.
//
// A panic of a callback ends the program, as on any goroutine. Only a program that runs the
// loop itself can recover from it: see Loop.RunOnce.
//
// # One turn
//
// A turn is one iteration of a loop. It has these steps, in this order:
//
//	clock        read every few turns, not every turn
//	completions  up to Config.Limits.CompletionBudget of each device: OnMessage, OnCompletion
//	turn func    the function of Loop.SetTurnFunc, if there is one
//	descriptors  connection events, device events, registered descriptors
//	posted       functions passed to Post
//	timers       After, time limits, keepalive
//	close        the next step of closing connections: OnClose
//	post         post the requests of callbacks, with one doorbell for each connection
//
// After a turn without work the loop polls again or sleeps, as its IdlePolicy says.
// Before a loop sleeps, it first sets a flag which says that it sleeps. Then it arms its
// completion queues, polls them once more, and checks for posted functions. Only then it
// waits. This order prevents lost wake-ups.
//
// A loop that must never sleep needs a processor for itself: use IdleBusy together with
// Config.CPUs, and keep the other threads away with ConfineRuntime. Set GOMAXPROCS to the
// number of such loops plus two. When there are fewer processors than loops, IdleEvent is
// the fastest policy. Sending and receiving a message allocates no Go memory.
//
// # Answers of other goroutines
//
// A callback may give a message to another goroutine, which gives its answer back as
// "Goroutines" above says. While functions are posted, a loop that is not pinned calls the Go
// scheduler in the first turn without work, so that the goroutine begins at once. The loop goes
// on when the goroutines that were waiting sleep or have computed for 10 ms; Stats.LongestTurn
// has this time, too.
//
// For a loop that is locked to a thread this call would be a switch between two threads, so a
// pinned loop does not make it, and OnBoot should not lock other loops. There the goroutine
// begins when another thread takes it, which lasts longer than the timer slack of the threads:
// 50 µs by default. A program with pinned loops whose other goroutines must be fast is started
// with a timer slack of 1 ns: TimerSlackNSec=1 in its systemd unit, or
// prctl(PR_SET_TIMERSLACK, 1) before exec. Source: PR_SET_TIMERSLACK(2const).
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
//	  Open ----- Close -----> Draining               sends not yet confirmed
//	    |                         |
//	    | Abort, failure,         | confirmed, failure, DrainTimeout
//	    | peer disconnects        |
//	    +-----> Closing <---------+                  this side disconnects,
//	               |                                 queues are flushed
//	               | flushed: OnClose
//	         Disconnecting                           disconnect event of the
//	               |                                 peer not yet received
//	            Closed                               all resources released
//
// In the states Dialing and Connecting a connection may also end with OnDialError or
// OnAcceptError. Every state except Open and Closed has a time limit: ConnectTimeout for
// Dialing and Connecting, DrainTimeout for Draining, one second for the flush in
// Closing, and DrainTimeout for Disconnecting. Messages that are received before the
// connection is established wait until OnOpen has returned.
//
// A connection is assigned to a loop before it has a queue pair, and stays on that loop.
// The loop reserves room in one of its completion queues for all completions that the
// connection may have outstanding. If there is no room, the connection is refused. So a
// completion queue never overruns.
//
// # Sending
//
// A message is accepted when the call that sends it returns nil. Either an accepted
// message is confirmed, or the connection ends with an error. Conn.Stats counts both
// cases. OnCompletion reports the result of each operation for which the application has
// requested it.
//
// Confirmed means that the message is in a receive buffer of the peer. OnMessage of the
// peer may run later. If the peer's application calls Close or Abort before OnMessage,
// the peer discards the message and counts it in Stats.Discarded. A program that needs
// to know that a message was processed lets the peer answer it.
//
// A full send queue is not an error of the connection. The call returns ErrWouldBlock
// and sends nothing, and OnWritable is called when half of the queue is free. Conn.CheckRoom
// asks whether there is room for several operations. Only every
// Config.Transport.SignalEvery-th send requests a completion from the device. That completion also
// confirms all earlier sends. So on an idle connection, the buffers of the last few
// sends may stay in use.
//
// A peer that reads every answer at once can fill the queue, too. With n requests of the
// peer outstanding, n answers that it has read may not be confirmed here when its next n
// requests arrive, and up to SignalEvery-1 answers before them have no completion of
// their own. So on the local path the answers need
//
//	2n + SignalEvery - 1
//
// places of MaxInFlight: the default of 63, where SignalEvery is 16, is enough for 24
// requests, but not for 25. On the wire path an acknowledgement may be late or lost, and no
// number is always enough. So a server keeps what Send has refused, as the example at
// the top does. If it does not trust its peers it limits what it keeps, because a peer
// may send and never confirm an answer.
//
// # Receiving
//
// With the option MessageTime of Listen or Dial, Message.Time says when a message has arrived.
//
// A handler that can take no more messages for now calls Conn.PauseRecv, and later
// Conn.ResumeRecv: a server whose answers wait for room, for example, until they are sent. The
// device then answers the peer's messages with RNR NAKs, and the peer repeats them, so nothing
// is lost and the order stays. Everything that the peer sends behind a message waits too: its
// WRITEs and READs, and its probes, so no side takes the other for dead. If this side has limited
// Config.Transport.RNRRetryCount, the peer gives up. A peer that calls Close gives up after its
// DrainTimeout.
//
// What a paused connection holds is bounded. If the device can hold back one queue pair
// (verbs.RecvPaused), as that of package soft can, it is what has arrived before the call. On
// other devices it is what fits into the receive queue, Config.MaxInFlight messages or twice
// MinRecvBuffers, and the connection needs one of its own: see DialOptions.OwnRecvQueue. On a
// connection with long messages it is MaxInFlight messages in addition, because the peer can
// read the long messages of this side only while nothing of it waits. During a pause no long
// message of the peer is read further, and what was read of one occupies memory.
//
// After ResumeRecv the peer waits until it repeats its message: on the device of package soft
// about as long as the pause was, at most 10 ms, and on others Config.Transport.MinRNRTimer.
//
// # One-sided operations
//
// Write, WriteBytes, Read, CompareSwap and FetchAdd access memory of the peer. The peer has
// made a Region of the memory with Engine.Alloc or Engine.Register, and has described it
// with Region.Remote. The peer's application takes no part in the access.
//
// When OnCompletion reports a WRITE as successful, the device of the peer has received
// all of its data. The peer's application learns of the data only from a message: the
// message of a WRITE with immediate data, or a later message on the same connection. When OnMessage is
// called for this message, the data is complete, and the peer may read Region.Bytes
// without atomic operations (IBTA vol. 1, 9.5). A message on another connection gives no
// such promise. Without a message, the peer can only watch a word of the memory with
// verbs.LoadUint64: see Loop.SetTurnFunc. When the word has changed, other bytes of the
// same WRITE may still be missing, because a device may write them in any order.
//
// The memory of this side is a Piece of a Region. This side must not change the memory
// of a WRITE, and must not read the memory of a READ, before OnCompletion. A later READ
// of the connection sees the data of an earlier WRITE. For the order of a READ and later
// operations see OpOptions.Fence.
//
// # Long messages
//
// If both sides set Config.MaxLongMessage, a message may be longer than
// Config.MaxMessage. Send, SendBuffer and SendV send it like any other message. The
// receiver gets it in the order of sending. Its bytes are not sent: the sender announces
// address, key and length, and the receiver READs them, in pieces of up to 1 MiB.
//
//	Send        copies the message to a Buffer
//	SendBuffer  sends a Buffer of Lease without a copy
//	SendV       sends pieces of Regions that have verbs.AccessRemoteRead, without a copy
//
// The memory of SendBuffer and SendV is in use until the receiver has read the message.
// Then OnCompletion is called, perhaps after that of later operations. A receiver that
// keeps its messages delays that without a limit: see Conn.SetTimeout. SendV reports a
// long message always, so it can not be Quiet. At most 15 messages may follow a long
// message that the receiver has not read: then Send returns ErrWouldBlock, and OnWritable
// is called later. Operations that are not messages do not wait.
//
// The receiver reads a long message into a Buffer, and OnMessage gets it whole.
// OnLongMessage can choose for each message to get it in memory of a Region, in parts as
// they arrive, or not at all. The buffers of a connection and of a loop that have long
// messages are limited by Config.Memory.LongConnBytes and Config.Memory.LongLoopBytes. Further long
// messages wait, and their senders do not lose them.
//
// The two sides agree with 8 bytes at the end of the private data of request and reply. A
// connection with ImmediatesOnly has no long messages. A peer that knows nothing of long
// messages gets messages of up to Config.MaxMessage bytes, and nothing else. Control
// messages have immediate data. The application may send the same immediate data: the
// library then first tells the peer that later control messages have other immediate
// data. While a long message is being read, its memory can be read by every peer that
// knows its key: see Remote. A Buffer whose key was announced is used again on the same
// connection only. A false address, key or length ends the connection with
// verbs.ErrProtocol.
//
// # Memory
//
// A Region is registered memory of the engine. One Region serves the connections of all
// loops and devices, so a program registers an arena once. Engine.Register takes memory
// of the program, Engine.MapFile maps a file, and Engine.Alloc maps new memory. An
// operation that uses a closed Region is refused, and Region.Close waits for the
// operations under way. The peer's keys are valid until then.
//
// There are two kinds of keys, and the comment of Remote says what each protects. A key
// of Region.Remote serves all peers of the engine, which need the remote rights of the
// Region. Conn.Show makes a key for the peer of one connection, for a part of a Region
// that may have no remote rights. Such a key is taken back by Conn.Hide, or the peer
// gives it back with a message: see OpOptions.Invalidate. It ends with its connection
// and its Region at the latest.
//
// # The life of a buffer
//
// When the memory of an operation belongs to the caller again:
//
//	Send, WriteBytes         when the call returns, because the bytes are copied
//	SendBuffer               never: the connection releases the Buffer
//	SendV of a long message  in OnCompletion, when the peer has read it
//	SendV, Write, Read       in OnCompletion; with OpOptions.Quiet in the OnCompletion of
//	                         a later operation; at last in OnClose
//	CompareSwap, FetchAdd    no memory: the result is in Op.Value
//	memory of Region.Remote  when Region.Close returns
//	memory of Conn.Show      in OnCompletion of Hide, in OnMessage if the peer has
//	                         invalidated the key; at last in OnClose
//
// Buffers are pieces of registered memory outside the Go heap, of Config.MaxMessage
// bytes each. Conn.Lease also leases larger ones, whose sizes are powers of two. The
// handler may use a received message until OnMessage returns, and longer if it calls
// Message.Keep. A buffer that was kept or leased belongs to the
// caller until Release, or until SendBuffer accepts it.
//
// The connections of a loop share receive buffers: see Config.Memory.SharedRecvBuffers and
// Config.Memory.MinRecvBuffers. A connection whose peer sends only immediates needs none: see
// DialOptions.ImmediatesOnly. The memory grows with the number of buffers in use. Unused
// memory is returned to the system within 40 s of its last use. The software device can
// return the pages of single free buffers. Other devices pin their pages: they can only
// return a whole memory region of up to 16 MiB, when none of its buffers is in use.
//
// # Latency
//
// If Config.LatencyEvery is set, each loop keeps histograms of how long its turns and callbacks
// take, how long messages wait for OnMessage, and how late the loop wakes up: see Latency.
// Config.Limits.SlowCallback finds the callback that holds up a loop: a warning names it.
//
// # Log
//
// Config.Logger gets warnings and errors that no callback reports, and at debug level a record
// of each event in the life of a connection:
//
//	connection request         local, remote, device
//	request accepted           local, remote
//	request rejected           local, remote, reason; no loop
//	dial                       remote
//	connection failed to open  dialed, error
//	connection open            dialed, device, max_in_flight, max_message, responder_resources,
//	                           initiator_depth, pid, uid
//	receiving paused, receiving resumed
//	                           held
//	connection closing         error, unless this side has called Close: the state StateOpen ends
//	connection closed          error as in OnClose, open_for, messages, message_bytes, accepted,
//	                           confirmed, failed, queue_full
//
// The messages begin with "reactor: ". All records have the attributes loop (Loop.Name) and remote,
// those of a connection also local, and qpn, the number of this side's queue pair, as soon as
// these are known. The attributes dialed (true if this side has dialed) to uid come from ConnInfo:
// pid and uid are those of Credentials, and only connections on the local path of package soft
// have them. The attributes from messages on come from ConnStats; held is the number of messages
// that wait. The names stay the same from version to version.
//
// The records have no bytes of messages and no private data: neither that of Accept and Reject, nor
// the text of CloseWith. A record is made in the callback's goroutine, and not limited in number:
// a peer that connects again and again makes as many. If the level is higher, an event costs one
// call of slog.Logger.Enabled.
//
// The page docs/storage.md is a guide for programs that store data.
//
// # Examples
//
// The files of this package whose names begin with "example_" have examples, which the
// tests run:
//
//	Config              fail-over to a second server
//	Conn.PauseRecv      a server that queues answers for slow clients
//	Conn.Send           a full send queue, and answers that wait for room in it
//	Conn.SendBuffer     sending without a copy
//	Conn.Show           lending memory to a peer
//	Conn.Write          one-sided operations
//	ConnRequest.Reject  refusing a connection, and clients above a limit
//	Engine.Latency      how long messages wait, and how long the Go runtime stops the loops
//	Engine.Shutdown     shutting down
//	Handler             the events of a connection; answers of other goroutines before the end
//	ListenOptions       a Handler for each listener
//	LongMessage         a long message in parts
//	Loop.SetTurnFunc    watching memory
//	Message.Keep        work on another goroutine
//	NewLoop             a loop on a goroutine of the program
//	Region              memory of the application
//	storage             a loop inside another event loop
package reactor

// How the package is built, for those who change it.
//
// The main types and their files:
//
//	Engine, acceptor     engine.go; acceptor.go and request.go: listeners, and requests that
//	                     are not answered yet
//	Loop                 loop.go; turn.go and sleep.go have the order of the steps
//	latencyRecorder      latency.go: what Loop.Latency returns; callback.go measures callbacks
//	loopDevice           loop_device.go: a device as one loop uses it, with its
//	                     completionQueues, sharedRecv and pool of buffers
//	Conn                 conn.go; it consists of these parts:
//	  opening            conn_open.go: what is needed until OnOpen
//	  sendQueue          send_queue.go: places, requests, and what is not posted yet; window.go
//	  recvSide           recv_queue.go: receives that other connections do not share;
//	                     conn_pause.go: messages that wait
//	  closing            conn_close.go has the states, the events and the table of the
//	                     transitions; conn_reason.go finds the error for OnClose, and
//	                     close_reason.go what the peer is told
//	  longState          long_*.go: long messages, if both sides have them
//	Region               region.go; a memory.Registration for each memory.Domain (a
//	                     protection domain), and a regionUse for each loop
//
// What knows nothing of loops and connections is in internal packages: closemsg has the
// format of a CloseReason, longmsg those of long messages, memory the registrations, slab the
// memory of buffers.
//
// # The way of a message
//
// A message of 64 bytes from Conn.Send to OnMessage, on the local path of package soft,
// passes queue.go of package cq and these files:
//
//	conn_send.go         send: is there room? sendInline: the device takes the bytes
//	send_queue.go        sendFlow.next, sendRequests.add: its place, and what to do when it
//	                     is confirmed
//	turn.go              postStaged: the doorbell, at the end of the turn
//
//	turn.go              pollCompletions
//	completion_queue.go  poll, completeInline
//	shared_recv.go       qpTable.get: which connection?
//	conn_recv.go         recvInline, deliver, onMessage
//
// A connection with long messages leaves this way at one branch of send and of deliver.
//
// cm/state.go has a table of the states that one connection has in provider/soft, in cm
// and here (connState), after each step of opening and closing.
//
// # A long message
//
// 1. Both sides offer long messages at the end of the private data of REQ and REP. A
// connection whose sides have both offered has a longState. On all others nothing
// changes.
//
// 2. The sender announces address, key and length of up to eight segments, in a SEND
// with immediate. The immediate data says that it is a control message.
//
// 3. The receiver keeps all messages that arrive later, at most 15, and gives their
// places in the receive queue to other buffers. It calls OnLongMessage, leases memory
// within LongConnBytes and LongLoopBytes, and posts up to 8 READs of up to 1 MiB, 2 MiB
// together. A connection that gets no memory waits in Loop.longRow.
//
// 4. After the last READ the receiver sends the number of long messages that are done.
// Then it delivers the message and those behind it.
//
// 5. The sender completes the message, and releases the buffer or the regions. The
// remote key of a buffer stays valid, so the buffer stays with the connection
// (shownBuffers) until it was not used for a while or the connection ends.
