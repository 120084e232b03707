package cm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A statement is what a manual page promises or demands in one sentence.
type statement struct {
	name   string   // name of the statement, such as "A1"
	says   string   // the sentence, in short
	tests  []string // its tests, each as "package.Function"
	remark string   // note about the sentence; if there are no tests, the note says why
}

// statements lists what the manual pages say. The letter of a name stands for a page:
//
//   - A: rdma_accept(3), edition of 2014; "2007:" means the edition of 2007
//   - C: rdma_connect(3)
//   - L: rdma_listen(3)
//   - R: rdma_reject(3)
//
// Or it stands for a subject:
//
//   - N: how parameters of one side become parameters of the other side
//   - P: private data (the pages above; IBTA vol. 1, 12.6 and annex A11)
var statements = []statement{
	{"A1", "accept answers a request, or a datagram lookup", []string{"cm.TestAccept", "unixcm.TestConnect", "unixcm.TestLookup"}, ""},
	{"A2", "accept takes the new ID of the request, not the listener", []string{"cm.TestAccept"}, ""},
	{"A3", "first listen, then wait for the request, then accept", []string{"cm.TestCalls", "unixcm.TestConnect"}, ""},
	{"A4", "the new ID is bound to one device", []string{"cm.TestAccept", "cm.TestRequestEvent", "unixcm.TestConnect"}, ""},
	{"A5", "the parameters should come from those of the request", []string{"cm.TestAcceptNil"}, "advice: Accept(nil) follows it, except for flow control"},
	{"A6", "the parameters of the event may be passed to accept", []string{"cm.TestAcceptPrivateData"}, "converted by MessageParam.ConnParam, because zero has another meaning in the parameters of accept"},
	{"A7", "the parameters of the event are valid until the event is acknowledged", []string{"cm.TestAcceptPrivateData", "cm.TestEventAfterAck"}, "here they stay valid afterwards too"},
	{"A8", "nil means the values of the request, lowered to the device", []string{"cm.TestAcceptNil"}, "flow control stays off, as with a ConnParam of zeros"},
	{"A9", "nil is allowed", []string{"cm.TestAcceptNil"}, "on an ID with a queue pair; otherwise there is no QP number to send"},
	{"A10", "private data is optional", []string{"cm.TestAcceptPrivateData", "unixcm.TestPrivateData"}, ""},
	{"A11", "accept copies the private data", []string{"cm.TestAcceptPrivateData", "unixcm.TestPrivateData"}, ""},
	{"A12", "the private data reaches the peer unchanged", []string{"cm.TestAcceptPrivateData", "unixcm.TestPrivateData"}, ""},
	{"A13", "the peer may get longer private data than was sent", []string{"cm.TestLongPrivateData", "rdmacore.TestConnectionParameters"}, "the soft device keeps the length: Caps.ExactPrivateData"},
	{"A14", "responder resources are the READs and atomics that this side serves; RC only", []string{"cm.TestAcceptQueuePair", "unixcm.TestConnect"}, ""},
	{"A15", "responder resources are at most the device's maximum", []string{"cm.TestAcceptDepths"}, ""},
	{"A16", "responder resources should not be below those of the request", []string{"cm.TestAcceptDepths"}, "advice: smaller ones are accepted"},
	{"A17", "the initiator depth is the number of READs and atomics that this side has outstanding; RC only", []string{"cm.TestAcceptQueuePair", "unixcm.TestConnect", "providertest.readMany"}, ""},
	{"A18", "the initiator depth is at most the device's maximum", []string{"cm.TestAcceptDepths"}, ""},
	{"A19", "the initiator depth is at most that of the request", []string{"cm.TestAcceptDepths"}, ""},
	{"A20", "flow control is announced to the peer and configures nothing", []string{"cm.TestAcceptCounts", "unixcm.TestConnect"}, ""},
	{"A21", "2007: flow control is used", nil, "A20 has replaced it"},
	{"A22", "the retry count is ignored", []string{"cm.TestAcceptCounts", "unixcm.TestConnect"}, ""},
	{"A23", "2007: the retry count limits the retries", nil, "A22 has replaced it"},
	{"A24", "the RNR retry count is for the peer's sends", []string{"cm.TestAcceptCounts", "unixcm.TestConnect"}, ""},
	{"A25", "a send for which no receive buffer is posted gets an RNR NAK", []string{"providertest.rnrZero", "providertest.rnrForever"}, ""},
	{"A26", "SRQ is ignored on an ID with queue pair", []string{"cm.TestAcceptQueuePair"}, ""},
	{"A27", "the QP number is ignored on an ID with queue pair", []string{"cm.TestAcceptQueuePair"}, ""},
	{"A28", "the least RNR timer is code 0, 655 ms", []string{"unixcm.TestConnect", "rdmacore.TestConnectionParameters"}, "deliberately different, for latency: 0.64 ms; SetMinRNRTimer sets any code"},
	{"A29", "the ACK timeout follows from the path and the device", []string{"connmgr.TestAckTimeoutCode", "madcm.TestAckTimeoutFollowsDelay", "madcm.TestAckTimeoutReceived"}, "with a longer packet lifetime than the kernel assumes, for outages of 5 s"},
	{"A30", "the RNR retry count has three bits", []string{"cm.TestAcceptCounts"}, "a larger count is an error; librdmacm uses 7"},
	{"A31", "private data is at most 196 bytes, for datagrams 136", []string{"cm.TestAcceptPrivateData", "cm.TestMaxPrivateData", "unixcm.TestPrivateData"}, ""},
	{"A32", "accept fails with a reason", []string{"cm.TestAccept", "cm.TestTransportRefuses", "unixcm.TestClientLeavesBeforeAccept"}, ""},

	{"C1", "connect starts a request, or a datagram lookup", []string{"cm.TestConnect", "unixcm.TestConnect", "unixcm.TestLookup"}, ""},
	{"C2", "private data is optional, copied, and passed on", []string{"cm.TestConnect", "unixcm.TestPrivateData", "unixcm.TestSystemBacklog"}, ""},
	{"C3", "the peer may get longer private data than was sent", []string{"cm.TestLongPrivateData", "rdmacore.TestConnectionParameters"}, ""},
	{"C4", "responder resources are at most the device's maximum", []string{"cm.TestConnectNumbers"}, ""},
	{"C5", "responder resources are at most what the peer may have outstanding", []string{"cm.TestAcceptNil", "connmgr.TestNegotiationLimits"}, "not known before the peer answers; the answer lowers them"},
	{"C6", "the initiator depth is at most the device's maximum", []string{"cm.TestConnectNumbers"}, ""},
	{"C7", "the initiator depth is at most what the peer serves", []string{"cm.TestAcceptNil", "connmgr.TestNegotiationLimits"}, "as C5"},
	{"C8", "the peer may change both", []string{"unixcm.TestConnect"}, ""},
	{"C9", "flow control is only announced to the peer", []string{"cm.TestConnectNumbers", "unixcm.TestConnect"}, ""},
	{"C10", "the retry count limits retries without an answer", []string{"cm.TestConnectNumbers", "unixcm.TestConnect", "shmpath.TestUnresponsivePeerEndsRetries"}, ""},
	{"C11", "the RNR retry count is for the peer's sends", []string{"cm.TestConnectNumbers", "unixcm.TestConnect", "providertest.rnrFinite"}, ""},
	{"C12", "SRQ and QP number are ignored on an ID with queue pair", []string{"cm.TestConnectQueuePair"}, ""},
	{"C13", "both counts have three bits", []string{"cm.TestConnectNumbers"}, "a larger count is an error; librdmacm uses 7"},
	{"C14", "private data is at most 56 bytes, for datagrams 180", []string{"cm.TestConnect", "cm.TestMaxPrivateData", "unixcm.TestPrivateData"}, ""},
	{"C15", "depths and counts are for connections only", []string{"cm.TestConnect", "unixcm.TestLookup"}, ""},

	{"L1", "requests and lookups arrive after listen", []string{"cm.TestListen", "unixcm.TestConnect", "unixcm.TestLookup", "unixcm.TestNoListener"}, ""},
	{"L2", "only requests for the address of the ID arrive", []string{"unixcm.TestListenOnAddresses"}, ""},
	{"L3", "the ID must have been bound", []string{"cm.TestListen"}, ""},
	{"L4", "an ID bound to an address listens on that address and its device", []string{"unixcm.TestListenOnAddresses"}, ""},
	{"L5", "an ID bound to a wildcard listens on all devices, including later ones", []string{"unixcm.TestListenOnWildcard"}, "the soft provider has one device; later devices are the kernel's"},
	{"L6", "the backlog bounds the requests that wait", []string{"cm.TestListen", "unixcm.TestBacklogWaits", "unixcm.TestBacklogCountsUnfetched", "unixcm.TestBacklogRefusesLookups"}, ""},
	{"L7", "listen fails with a reason", []string{"cm.TestCalls", "cm.TestTransportRefuses"}, ""},

	{"R1", "reject refuses a request, a lookup, and on the active side a response", []string{"cm.TestReject", "unixcm.TestReject", "soft.TestRejectResponse"}, ""},
	{"R2", "the refusal carries private data", []string{"cm.TestReject", "unixcm.TestReject"}, ""},
	{"R3", "the peer may get longer private data than was sent", []string{"cm.TestLongPrivateData", "rdmacore.TestRefusals"}, ""},
	{"R4", "the length of the private data has eight bits", []string{"cm.TestLengthsBeyondAByte"}, ""},
	{"R5", "reject fails with a reason", []string{"cm.TestReject", "unixcm.TestClientLeavesBeforeAccept"}, ""},

	{"P1", "a REQ has 56 bytes for the caller", []string{"cm.TestConnect", "unixcm.TestPrivateData", "rdmacore.TestConnectionParameters"}, ""},
	{"P2", "a REP has 196", []string{"cm.TestAcceptPrivateData", "unixcm.TestPrivateData", "rdmacore.TestConnectionParameters"}, ""},
	{"P3", "a REJ has 148", []string{"cm.TestReject", "unixcm.TestReject", "rdmacore.TestRefusals"}, ""},
	{"P4", "RTU, DREQ and DREP carry no private data", []string{"unixcm.TestPrivateData", "cm.TestDisconnectData"}, "deliberately different: a DREQ does on devices with Caps.DisconnectData (IBTA vol. 1, 12.6.10)"},
	{"P5", "a SIDR_REQ has 180", []string{"cm.TestConnect", "unixcm.TestPrivateData"}, ""},
	{"P6", "a SIDR_REP has 136, accepting or refusing", []string{"cm.TestAcceptPrivateData", "cm.TestReject", "unixcm.TestPrivateData", "unixcm.TestReject"}, ""},
	{"P7", "with InfiniBand addresses a REQ has 92, a SIDR_REQ 216", nil, "this package has no such addresses: see its comment"},
	{"P8", "36 bytes in front of REQ and SIDR_REQ name the addresses", []string{"wire.TestCMAHeader"}, "on the wire; the messages of the soft device's local path have them too"},
	{"P9", "connect with too much private data fails at once and may be repeated", []string{"cm.TestConnect"}, ""},
	{"P10", "also for a length that does not fit a byte", []string{"cm.TestLengthsBeyondAByte"}, ""},
	{"P11", "the same in a lookup", []string{"cm.TestConnect"}, ""},
	{"P12", "accept with too much private data loses the request", []string{"cm.TestAcceptPrivateData"}, "deliberately different: the length is checked before the kernel sees it, so the request is not lost"},
	{"P13", "the same for a lookup", []string{"cm.TestAcceptPrivateData"}, "as P12"},
	{"P14", "reject with too much private data fails at once and may be repeated", []string{"cm.TestReject"}, ""},

	{"N1", "the initiator depth of connect is what the passive side serves", []string{"unixcm.TestConnect", "rdmacore.TestConnectionParameters"}, ""},
	{"N2", "the responder resources of connect are what the passive side may have outstanding", []string{"unixcm.TestConnect", "rdmacore.TestConnectionParameters"}, ""},
	{"N3", "the responder resources of accept limit what the active side has outstanding", []string{"unixcm.TestConnect", "rdmacore.TestConnectionParameters"}, ""},
	{"N4", "the initiator depth of accept is what the active side serves", []string{"unixcm.TestConnect", "rdmacore.TestConnectionParameters"}, ""},
	{"N5", "the retry count of connect applies to both queue pairs", []string{"unixcm.TestConnect", "rdmacore.TestConnectionParameters"}, ""},
	{"N6", "the RNR retry count of connect applies to the passive queue pair", []string{"unixcm.TestConnect"}, ""},
	{"N7", "the RNR retry count of accept applies to the active queue pair", []string{"unixcm.TestConnect"}, ""},
	{"N8", "the peer may always write; read, and use atomics, only where they are served", []string{"unixcm.TestConnect", "unixcm.TestAccessFollowsResources"}, ""},
	{"N9", "nil in connect means the device's maximum, and 7 retries of either kind", []string{"cm.TestConnect"}, ""},
}

// packages maps the packages that have the tests to their directories.
var packages = map[string]string{
	"cm": ".", "soft": "../provider/soft", "qp": "../provider/soft/internal/qp", "rcpath": "../provider/soft/internal/rcpath", "shmpath": "../provider/soft/internal/shmpath", "udpath": "../provider/soft/internal/udpath", "connmgr": "../provider/soft/internal/connmgr", "unixcm": "../provider/soft/internal/unixcm", "madcm": "../provider/soft/internal/madcm", "rdmacore": "../provider/rdmacore",
	"providertest": "../provider/providertest", "wire": "../internal/wire",
}

// TestStatements checks that every statement has tests that exist, or says why it has
// none.
func TestStatements(t *testing.T) {
	functions := make(map[string]map[string]*ast.FuncDecl)
	for name, dir := range packages {
		functions[name] = readFunctions(t, dir)
	}
	for _, s := range statements {
		require.NotEmpty(t, s.says, s.name)
		require.False(t, len(s.tests) == 0 && s.remark == "", "%s has neither a test nor a reason", s.name)
		for _, test := range s.tests {
			name, function, _ := strings.Cut(test, ".")
			require.NotNil(t, functions[name][function], "%s names %s", s.name, test)
			require.True(t, name == "providertest" || strings.HasPrefix(function, "Test"), "%s: %s is no test", s.name, test)
		}
	}
}

// TestStatementsAreComplete checks that the statements are numbered without gaps.
func TestStatementsAreComplete(t *testing.T) {
	var want []string
	for _, page := range []struct {
		letter string
		rows   int
	}{{"A", 32}, {"C", 15}, {"L", 7}, {"R", 5}, {"P", 14}, {"N", 9}} {
		for i := range page.rows {
			want = append(want, page.letter+strconv.Itoa(i+1))
		}
	}
	var have []string
	for _, s := range statements {
		have = append(have, s.name)
	}
	require.Equal(t, want, have)
}

// TestStatementsKnowTheirTests checks that a test case labelled "A1: ..." is listed for
// statement A1.
func TestStatementsKnowTheirTests(t *testing.T) {
	tests := make(map[string][]string)
	for _, s := range statements {
		tests[s.name] = s.tests
	}
	label := regexp.MustCompile(`^"((?:[ACLRPN]\d+ ?)+): `)
	labels := 0
	for name, function := range readFunctions(t, ".") {
		ast.Inspect(function, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || !label.MatchString(text.Value) {
				return true
			}
			for row := range strings.FieldsSeq(label.FindStringSubmatch(text.Value)[1]) {
				labels++
				require.Contains(t, tests[row], "cm."+name, row)
			}
			return true
		})
	}
	require.Greater(t, labels, 40, "the labels are not found")
}

// readFunctions returns the functions of a package by name, without methods.
func readFunctions(t *testing.T, dir string) map[string]*ast.FuncDecl {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no package in %s", dir)
	functions := make(map[string]*ast.FuncDecl)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				functions[f.Name.Name] = f
			}
		}
	}
	return functions
}
