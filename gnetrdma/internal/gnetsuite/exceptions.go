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
