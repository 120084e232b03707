// Package hwcounters describes counters that the drivers of RDMA devices in Linux have, and
// provider/soft too. One text for each name lets the metrics of both kinds of devices have the
// same name.
package hwcounters

// Help returns what a counter counts, or "" if the package does not know its name.
func Help(name string) string { return texts[name] }

var texts = map[string]string{
	"completer_retry_err":    "times that requests were sent again, after a sequence error NAK, a timeout or a skipped response",
	"duplicate_request":      "request packets that were executed before",
	"local_ack_timeout_err":  "timeouts after which requests were sent again",
	"out_of_buffer":          "messages and datagrams for which there was no receive buffer",
	"out_of_seq_request":     "gaps in the sequence of requests for which a NAK was sent",
	"rcvd_pkts":              "packets passed to queue pairs",
	"rcvd_rnr_err":           "RNR NAKs received",
	"rcvd_seq_err":           "sequence error NAKs received",
	"retry_exceeded_err":     "requests that failed because the retry count was used up",
	"retry_rnr_exceeded_err": "requests that failed because the RNR retry count was used up",
	"rx_icrc_encapsulated":   "packets with a wrong ICRC: they were damaged in the network",
	"send_err":               "packets that the system refused, too long or unroutable",
	"send_rnr_err":           "RNR NAKs sent: a message found no receive buffer, or the queue pair does not receive now",
	"sent_pkts":              "packets passed to the system",
}
