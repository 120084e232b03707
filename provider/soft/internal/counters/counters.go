package counters

import (
	"slices"
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/internal/hwcounters"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// An ID identifies a counter.
type ID uint8

// IDs of the counters, in the order of their names.
const (
	AccessRefused ID = iota
	AllocBytes
	CaptureDropped
	CMAddressFull
	CMAnswerDropped
	CMRequestDropped
	CMRequestEvicted
	CMRequestUnread
	CompleterRetryErr
	DatagramUnsent
	DatagramUserRefused
	DuplicateRequest
	LocalAckTimeoutErr
	MappedBytesErr
	NoDescriptorsErr
	NoMappingsErr
	OutOfBuffer
	OutOfSeqRequest
	PartialExpired
	PartialRefused
	PeerRegionBytes
	PeerShardsErr
	RcvdAddressErr
	RcvdDatagramErr
	RcvdIdentErr
	RcvdMalformedErr
	RcvdNoQPErr
	RcvdOverrunErr
	RcvdPkts
	RcvdReordered
	RcvdRNRErr
	RcvdSeqErr
	RcvdUserErr
	RegisteredBytes
	retryExceededErr
	retryRNRExceededErr
	RxICRCEncapsulated
	SegmentBytes
	SendErr
	sendRNRErr
	SentPkts
	SilentClientErr
	SkippedUserErr
	UserLimitErr
	Num // number of counters
)

// String returns the name of the counter.
func (id ID) String() string { return all[id].Name }

// all describes the counters. Package soft has more about some of them.
var all = [Num]verbs.Counter{
	AccessRefused: {Name: "access_refused",
		Help: "connection requests refused after access errors or violations of the protocol by the same source"},
	AllocBytes: {Name: "alloc_bytes", Unit: "bytes", Gauge: true,
		Help: "memory that verbs.PD.Alloc has mapped and that is not closed"},
	CaptureDropped: {Name: "capture_dropped",
		Help: "packets that are missing in the file of Config.Capture, because its buffer was full or the file can not be written"},
	CMAddressFull: {Name: "cm_address_full",
		Help: "connection requests refused because of Config.MaxConnsPerAddress"},
	CMAnswerDropped: {Name: "cm_answer_dropped",
		Help: "replies of connection management that were not sent, because of a rate limit or because the peer is not validated"},
	CMRequestDropped: {Name: "cm_request_dropped",
		Help: "connection requests dropped because there was no room for them; the peer retransmits them"},
	CMRequestEvicted: {Name: "cm_request_evicted",
		Help: "half-open connections ended to make room for requests of others (Config.MaxHalfOpen)"},
	CMRequestUnread: {Name: "cm_request_unread",
		Help: "connection requests dropped before they were checked, because their source has its share of those that wait or are half-open"},
	CompleterRetryErr: driver("completer_retry_err"),
	DatagramUnsent: {Name: "datagram_unsent",
		Help: "UD sends to this host that completed and were then dropped"},
	DatagramUserRefused: {Name: "datagram_user_refused",
		Help: "connections of UD senders, and UD sends, refused because of Config.AllowedUsers"},
	DuplicateRequest:   driver("duplicate_request"),
	LocalAckTimeoutErr: driver("local_ack_timeout_err"),
	MappedBytesErr: {Name: "mapped_bytes_err",
		Help: "regions and segments of peers that were not mapped because of Config.MaxMappedPerProcess or Config.MaxMapped"},
	NoDescriptorsErr: {Name: "no_descriptors_err",
		Help: "connections on the local path refused because no file descriptor was free"},
	NoMappingsErr: {Name: "no_mappings_err",
		Help: "connections on the local path refused because the process has too many mappings (vm.max_map_count)"},
	OutOfBuffer:     driver("out_of_buffer"),
	OutOfSeqRequest: driver("out_of_seq_request"),
	PartialExpired: {Name: "partial_message_expired",
		Help: "connections ended because the rest of a message did not arrive in time, and others waited for its receive buffer"},
	PartialRefused: {Name: "partial_message_refused",
		Help: "first packets of messages refused with an RNR NAK, because incomplete messages of the source held its share of the receive buffers of an SRQ"},
	PeerRegionBytes: {Name: "peer_region_bytes", Unit: "bytes", Gauge: true,
		Help: "regions of other processes that are mapped for one-sided operations on the local path"},
	PeerShardsErr: {Name: "peer_shards_err",
		Help: "connections on the local path refused because their process has connections of too many loops"},
	RcvdAddressErr: {Name: "rcvd_address_err",
		Help: "requests on the local path refused because the client does not hold the addresses in the request, or because this could not be checked"},
	RcvdDatagramErr: {Name: "rcvd_datagram_err",
		Help: "datagrams that a UD queue pair dropped because it was not ready, the Q_Key was wrong, or the receive buffer was too small"},
	RcvdIdentErr: {Name: "rcvd_ident_err",
		Help: "IPv4 packets whose ICRC is right only with another IP identification than expected"},
	RcvdMalformedErr: {Name: "rcvd_malformed_err",
		Help: "datagrams that are no packets of RoCEv2"},
	RcvdNoQPErr: {Name: "rcvd_no_qp_err",
		Help: "packets for an unknown queue pair or partition"},
	RcvdOverrunErr: {Name: "rcvd_overrun_err",
		Help: "datagrams that the system dropped before they were read, usually because the socket was full (net.core.rmem_max)"},
	RcvdPkts: driver("rcvd_pkts"),
	RcvdReordered: {Name: "rcvd_reordered",
		Help: "request packets that arrived after a later one, but before a NAK was sent for the gap; they were put in order without a NAK"},
	RcvdRNRErr: driver("rcvd_rnr_err"),
	RcvdSeqErr: driver("rcvd_seq_err"),
	RcvdUserErr: {Name: "rcvd_user_err",
		Help: "requests from this host refused because of Config.AllowedUsers"},
	RegisteredBytes: {Name: "registered_bytes", Unit: "bytes", Gauge: true,
		Help: "memory of the program that is registered by verbs.PD.Register"},
	retryExceededErr:    driver("retry_exceeded_err"),
	retryRNRExceededErr: driver("retry_rnr_exceeded_err"),
	RxICRCEncapsulated:  driver("rx_icrc_encapsulated"),
	SegmentBytes: {Name: "segment_bytes", Unit: "bytes", Gauge: true,
		Help: "memory of the local path that is shared with the loops of peers and mapped"},
	SendErr:    driver("send_err"),
	sendRNRErr: driver("send_rnr_err"),
	SentPkts:   driver("sent_pkts"),
	SilentClientErr: {Name: "silent_client_err",
		Help: "clients that a listener disconnected because too many had connected to its Unix socket and had sent no request yet"},
	SkippedUserErr: {Name: "skipped_user_err",
		Help: "processes of this host to which a dial sent no request because of Config.AllowedUsers"},
	UserLimitErr: {Name: "user_limit_err",
		Help: "connections on the local path refused because of Config.MaxConnsPerUser"},
}

// driver returns a counter that drivers of Linux have too, with the same meaning.
func driver(name string) verbs.Counter {
	return verbs.Counter{Name: name, Help: hwcounters.Help(name)}
}

// A Set has the counters of one owner, such as a shard. Only the owner adds to them. Any
// goroutine may read them.
type Set struct {
	// OnLimit is called by Limit. It may be nil, and is set before the Set is used.
	OnLimit func(ID)

	values [Num]atomic.Uint64
}

// Load returns the value of a counter.
func (c *Set) Load(id ID) uint64 { return c.values[id].Load() }

// Add adds n to a counter.
func (c *Set) Add(id ID, n uint64) { c.values[id].Add(n) }

// Sub subtracts n from a counter that is a gauge. The sum over the sets of a device is
// right, also if a set has only subtracted.
func (c *Set) Sub(id ID, n uint64) { c.values[id].Add(-n) }

// Inc adds 1 to a counter.
func (c *Set) Inc(id ID) { c.values[id].Add(1) }

// Limit is Inc for a counter of what was refused because of a limit of the system or of
// the configuration.
func (c *Set) Limit(id ID) {
	c.Inc(id)
	if c.OnLimit != nil {
		c.OnLimit(id)
	}
}

// Failed is called for a request that has failed. It counts the request if its retries
// were exhausted.
func (c *Set) Failed(status verbs.Status) {
	switch status {
	case verbs.StatusRetryExcErr:
		c.Inc(retryExceededErr)
	case verbs.StatusRNRRetryExcErr:
		c.Inc(retryRNRExceededErr)
	}
}

// RNRSent counts a message that found no receive buffer, and the RNR NAK that answered
// it.
func (c *Set) RNRSent() {
	c.Inc(OutOfBuffer)
	c.Inc(sendRNRErr)
}

// Sum adds up the counters of several sets. It returns all counters, sorted by name.
func Sum(sets []*Set) []verbs.Counter {
	list := slices.Clone(all[:])
	for id := range list {
		for _, c := range sets {
			list[id].Value += c.Load(ID(id))
		}
	}
	return list
}
