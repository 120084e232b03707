package counters

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// An ID identifies a counter.
type ID uint8

// IDs of the counters, in the order of their names. Package soft describes each counter.
const (
	AccessRefused ID = iota
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
	retryExceededErr
	retryRNRExceededErr
	RxICRCEncapsulated
	SendErr
	sendRNRErr
	SentPkts
	SilentClientErr
	SkippedUserErr
	UserLimitErr
	Num // number of counters
)

// String returns the name of the counter.
func (id ID) String() string { return names[id] }

var names = [Num]string{
	AccessRefused:       "access_refused",
	CMAddressFull:       "cm_address_full",
	CMAnswerDropped:     "cm_answer_dropped",
	CMRequestDropped:    "cm_request_dropped",
	CMRequestEvicted:    "cm_request_evicted",
	CMRequestUnread:     "cm_request_unread",
	CompleterRetryErr:   "completer_retry_err",
	DatagramUnsent:      "datagram_unsent",
	DatagramUserRefused: "datagram_user_refused",
	DuplicateRequest:    "duplicate_request",
	LocalAckTimeoutErr:  "local_ack_timeout_err",
	MappedBytesErr:      "mapped_bytes_err",
	NoDescriptorsErr:    "no_descriptors_err",
	NoMappingsErr:       "no_mappings_err",
	OutOfBuffer:         "out_of_buffer",
	OutOfSeqRequest:     "out_of_seq_request",
	PartialExpired:      "partial_message_expired",
	PartialRefused:      "partial_message_refused",
	PeerShardsErr:       "peer_shards_err",
	RcvdAddressErr:      "rcvd_address_err",
	RcvdDatagramErr:     "rcvd_datagram_err",
	RcvdIdentErr:        "rcvd_ident_err",
	RcvdMalformedErr:    "rcvd_malformed_err",
	RcvdNoQPErr:         "rcvd_no_qp_err",
	RcvdOverrunErr:      "rcvd_overrun_err",
	RcvdPkts:            "rcvd_pkts",
	RcvdReordered:       "rcvd_reordered",
	RcvdRNRErr:          "rcvd_rnr_err",
	RcvdSeqErr:          "rcvd_seq_err",
	RcvdUserErr:         "rcvd_user_err",
	retryExceededErr:    "retry_exceeded_err",
	retryRNRExceededErr: "retry_rnr_exceeded_err",
	RxICRCEncapsulated:  "rx_icrc_encapsulated",
	SendErr:             "send_err",
	sendRNRErr:          "send_rnr_err",
	SentPkts:            "sent_pkts",
	SilentClientErr:     "silent_client_err",
	SkippedUserErr:      "skipped_user_err",
	UserLimitErr:        "user_limit_err",
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
func Sum(all []*Set) []verbs.Counter {
	list := make([]verbs.Counter, Num)
	for id, name := range names {
		list[id].Name = name
		for _, c := range all {
			list[id].Value += c.Load(ID(id))
		}
	}
	return list
}
