package gnetsuite

import (
	"regexp"
	"slices"
	"strings"
)

// All lists the tests that are about streams. The names are those after Rewrite.
var All = slices.Concat(whole, []string{"TestServer", "TestClient", "TestSimServer", "TestStreamProxyServer"})

// Quick lists a part of Short, which takes ten seconds. The tests mostly wait.
var Quick = slices.Concat(whole, []string{
	"TestServer/poll-LT/rdma/N-loop",
	"TestClient/poll-LT/rdma/N-loop",
	"TestStreamProxyServer/rdma-proxy-server/1-loop-LT",
})

// Short lists a part of them, which takes half a minute.
var Short = slices.Concat(whole, []string{
	"TestServer/poll-LT",
	"TestServer/poll-multi-addrs-LT/sync",
	"TestClient/poll-LT",
	"TestSimServer/packet-size=1024*1024,batch=2",
	"TestStreamProxyServer/rdma-proxy-server/1-loop-LT",
})

// whole lists the tests that are in Short with all their subtests.
var whole = []string{
	"TestWakeConn", "TestWakeConnImmediately", "TestClosedWakeUp", "TestShutdown", "TestCloseActionError",
	"TestShutdownActionError", "TestCloseActionOnOpen", "TestShutdownActionOnOpen", "TestCloseConnection",
	"TestStopServer", "TestDisconnectedAsyncWrite", "TestClientReadOnEOF", "TestTick", "TestBadAddresses",
	"TestServerOptionsCheck",
}

// Skip is the pattern for go test -skip. It matches tests whose connections are not those
// of package gnetrdma, and one that needs two listeners at one address.
const Skip = "^(TestServer|TestClient)$/./^(udp|unix)|^TestStreamProxyServer$/^(udp|unix)|^TestEngineStop$"

// Pattern returns the pattern for go test -run that matches the named tests and their
// subtests.
func Pattern(names []string) string {
	var patterns []string
	for _, name := range names {
		var parts []string
		for part := range strings.SplitSeq(name, "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		patterns = append(patterns, strings.Join(parts, "/"))
	}
	return strings.Join(patterns, "|")
}
