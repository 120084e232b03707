//go:build linux

package soft

import (
	"sync/atomic"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// A counterID is what is counted, in the order of the names. The documentation of
// the package says what each means.
type counterID uint8

const (
	accessRefused counterID = iota
	cmAddressFull
	cmAnswerDropped
	cmRequestDropped
	cmRequestEvicted
	completerRetryErr
	datagramUnsent
	datagramUserRefused
	duplicateRequest
	localAckTimeoutErr
	noDescriptorsErr
	noMappingsErr
	outOfBuffer
	outOfSeqRequest
	partialExpired
	rcvdAddressErr
	rcvdDatagramErr
	rcvdIdentErr
	rcvdMalformedErr
	rcvdNoQPErr
	rcvdOverrunErr
	rcvdPkts
	rcvdRNRErr
	rcvdSeqErr
	rcvdUserErr
	retryExceededErr
	retryRNRExceededErr
	rxICRCEncapsulated
	sendErr
	sendRNRErr
	sentPkts
	silentClientErr
	skippedUserErr
	userLimitErr
	numCounters
)

var counterNames = [numCounters]string{
	accessRefused:       "access_refused",
	cmAddressFull:       "cm_address_full",
	cmAnswerDropped:     "cm_answer_dropped",
	cmRequestDropped:    "cm_request_dropped",
	cmRequestEvicted:    "cm_request_evicted",
	completerRetryErr:   "completer_retry_err",
	datagramUnsent:      "datagram_unsent",
	datagramUserRefused: "datagram_user_refused",
	duplicateRequest:    "duplicate_request",
	localAckTimeoutErr:  "local_ack_timeout_err",
	noDescriptorsErr:    "no_descriptors_err",
	noMappingsErr:       "no_mappings_err",
	outOfBuffer:         "out_of_buffer",
	outOfSeqRequest:     "out_of_seq_request",
	partialExpired:      "partial_message_expired",
	rcvdAddressErr:      "rcvd_address_err",
	rcvdDatagramErr:     "rcvd_datagram_err",
	rcvdIdentErr:        "rcvd_ident_err",
	rcvdMalformedErr:    "rcvd_malformed_err",
	rcvdNoQPErr:         "rcvd_no_qp_err",
	rcvdOverrunErr:      "rcvd_overrun_err",
	rcvdPkts:            "rcvd_pkts",
	rcvdRNRErr:          "rcvd_rnr_err",
	rcvdSeqErr:          "rcvd_seq_err",
	rcvdUserErr:         "rcvd_user_err",
	retryExceededErr:    "retry_exceeded_err",
	retryRNRExceededErr: "retry_rnr_exceeded_err",
	rxICRCEncapsulated:  "rx_icrc_encapsulated",
	sendErr:             "send_err",
	sendRNRErr:          "send_rnr_err",
	sentPkts:            "sent_pkts",
	silentClientErr:     "silent_client_err",
	skippedUserErr:      "skipped_user_err",
	userLimitErr:        "user_limit_err",
}

// counters are what one owner has counted. It adds; anybody may read. They are no
// part of the owner, so that they outlive it, and who reads them disturbs nothing
// else of its.
type counters [numCounters]atomic.Uint64

func (c *counters) add(id counterID, n uint64) { c[id].Add(n) }

func (c *counters) inc(id counterID) { c[id].Add(1) }

// failed counts a request that ended with an error.
func (c *counters) failed(status verbs.Status) {
	switch status {
	case verbs.StatusRetryExcErr:
		c.inc(retryExceededErr)
	case verbs.StatusRNRRetryExcErr:
		c.inc(retryRNRExceededErr)
	}
}

// onRNR counts a message that found no buffer, to which the answer is an RNR NAK.
func (c *counters) notReady() {
	c.inc(outOfBuffer)
	c.inc(sendRNRErr)
}

// Counters implements verbs.CounterReader. It also answers after the device was
// closed.
func (d *device) Counters(port uint8) ([]verbs.Counter, error) {
	if err := checkPort(port); err != nil {
		return nil, verbs.Wrap("read counters", err)
	}
	d.mu.Lock()
	all := d.counted // grows only
	d.mu.Unlock()
	list := make([]verbs.Counter, numCounters)
	for id, name := range counterNames {
		list[id].Name = name
		for _, c := range all {
			list[id].Value += c[id].Load()
		}
	}
	list[rcvdOverrunErr].Value = d.udp.overruns()
	return list, nil
}

var _ verbs.CounterReader = (*device)(nil)
