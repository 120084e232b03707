// Package reactortest runs programs that use package reactor in virtual time, on simulated
// hosts, with faults on command. Tests of a handler wait for no clock, and a run with the
// same seed is the same run.
//
//	reactortest.Run(t, 1, func(t *testing.T, w *reactortest.World) {
//		server, client := w.Host("server"), w.Host("client")
//		e := server.Process("echo").Start(&echo{}, nil)
//		_, err := e.Listen(server.AddrPort(7471), nil)
//		...
//		c := w.Dial(client.Process("test").Start(reactor.BaseHandler{}, nil), server.AddrPort(7471), nil)
//		answer := c.Exchange([]byte("hello"))
//		server.Kill()
//		c.WantClose(reactor.ErrKeepalive)
//	})
//
// # What is real
//
// The handlers and engines are those of the program, and below them run the real connection
// manager, transport, completion queues and timers of the soft device. Processes of one host
// use the shared memory and the sockets of the kernel; processes of different hosts exchange
// the packets of RoCEv2, through a network that the test controls.
//
// The clock is that of a bubble of package testing/synctest. It stands still while code
// runs, and advances when all loops wait. So time.Now, timers, deadlines and contexts of the
// program use it too. The times that packets and loops take are often less than the step of
// this clock for them, 50 µs; the log has them to the nanosecond. Loops do not poll before
// they sleep, and Config.CPUs has no effect.
//
// All loops run on the goroutine of the test, one after the other, in an order that the seed
// decides. Only the methods that may be called on any goroutine may be called by the test
// itself, and by goroutines that the program has started in the world; see World.On for the
// others. Shutdown and Wait of an Engine let time pass.
//
// A World has a table of descriptors of its own, so a descriptor that the test opens in it
// can not be used by other goroutines, and is closed at the end. Other goroutines may not open
// devices or call Engine.Listen.
//
// # Seeds
//
// Seeds runs a test with many seeds. When one fails, it prints the last callbacks with their
// times, and the command that repeats it. World.Digest tells whether two runs were the same.
package reactortest
