package gnetsuite

// An Exception is a statement of gnet's tests that does not hold for package gnetrdma.
type Exception struct {
	Function  string // with the type of the receiver: "testServer.OnTraffic"
	Statement string // how the statement begins
	With      string // what replaces the statement; empty if it is removed
	Reason    string
}

const (
	noDescriptor  = "a connection has no descriptor"
	noSocket      = "a connection has no socket, so its options are not supported"
	deadlinesWork = "deadlines work, and would close the connection"
	scheduleWorks = "Schedule works"
	noEnroll      = "a connection of package net has no RDMA connection"
)

// Exceptions lists all of them.
var Exceptions = []Exception{
	{"testServer.OnTraffic", "fd, err := c.Dup()", "", noDescriptor},
	{"testServer.OnTraffic", `assert.NoError(s.tester, err, "dup error")`, "", noDescriptor},
	{"testServer.OnTraffic", "assert.Greaterf(s.tester, fd", "", noDescriptor},
	{"testServer.OnTraffic", "assert.NoError(s.tester, SysClose(fd)", "", noDescriptor},
	{"testServer.OnTraffic", `if c.LocalAddr().Network() == "unix" && runtime.GOOS`, "", noSocket},
	{"testServer.OnTraffic", `if c.LocalAddr().Network() == "tcp" {`, "", noSocket},
	{"testServer.OnTraffic", "assert.ErrorIs(s.tester, c.SetDeadline", "", deadlinesWork},
	{"testServer.OnTraffic", "assert.ErrorIs(s.tester, c.SetReadDeadline", "", deadlinesWork},
	{"testServer.OnTraffic", "assert.ErrorIs(s.tester, c.SetWriteDeadline", "", deadlinesWork},
	{"streamProxyServer.OnOpen", "err = c.EventLoop().Schedule(", "", scheduleWorks},
	{"streamProxyServer.OnOpen", "assert.ErrorIsf(p.tester, err, errorx.ErrUnsupportedOp", "", scheduleWorks},
	{"testStreamProxyServer", "err = srv.eventLoop.Schedule(", "", scheduleWorks},
	{"testStreamProxyServer", "require.ErrorIsf(t, err, errorx.ErrUnsupportedOp", "", scheduleWorks},
	{"startGnetClient", "if netDial {", "c, err = cli.DialContext(network, addr, handler)", noEnroll},
}

// Patterns for go test -run and -skip.
const (
	// All matches the tests that are about streams.
	All = "^(TestServer|TestClient|TestWakeConn|TestWakeConnImmediately|TestClosedWakeUp|TestShutdown|" +
		"TestCloseActionError|TestShutdownActionError|TestCloseActionOnOpen|TestShutdownActionOnOpen|" +
		"TestCloseConnection|TestStopServer|TestDisconnectedAsyncWrite|TestClientReadOnEOF|TestSimServer|" +
		"TestStreamProxyServer|TestTick|TestBadAddresses|TestServerOptionsCheck)$"
	// Short matches a part of them, which takes half a minute.
	Short = "^TestServer$/^poll-LT$|^TestServer$/^poll-multi-addrs-LT$/^sync$|^TestClient$/^poll-LT$|" +
		"^TestSimServer$/^packet-size=1024.1024|^TestStreamProxyServer$/./^1-loop-LT$|" +
		"^(TestWakeConn|TestWakeConnImmediately|TestClosedWakeUp|TestShutdown|TestCloseActionError|" +
		"TestShutdownActionError|TestCloseActionOnOpen|TestShutdownActionOnOpen|TestCloseConnection|" +
		"TestStopServer|TestDisconnectedAsyncWrite|TestClientReadOnEOF|TestTick|TestBadAddresses|" +
		"TestServerOptionsCheck)$"
	// Skip matches tests whose connections are not those of this package, and one that
	// needs two listeners at one address.
	Skip = "^(TestServer|TestClient)$/./^(udp|unix)|^TestStreamProxyServer$/^(udp|unix)|^TestEngineStop$"
)
