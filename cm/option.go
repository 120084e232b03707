package cm

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxTimerCode is the largest code of a local ACK timeout, and of a minimum RNR
// timer: they have five bits.
const maxTimerCode = 31

// SetTOS sets the type of service of the ID's packets. It must come before
// ResolveRoute, which builds it in. Source: rdma_set_option(3).
func (id *ID) SetTOS(tos uint8) error {
	return id.setOption(callSetTOS, OptionTOS, int(tos))
}

// SetReuseAddr allows several IDs that all set it to be bound to one address
// and port, as long as at most one listens. It can be set on any ID that does
// not listen, and taken back before Bind. Set after Bind it lets others share the
// port from then on; where the port can not be shared any more, as on the local
// path of the soft device after Connect, the error is a *verbs.FeatureError.
// Source: rdma_set_option(3).
func (id *ID) SetReuseAddr(on bool) error {
	if on {
		return id.setOption(callSetReuseAddr, OptionReuseAddr, 1)
	}
	return id.setOption(callClearReuseAddr, OptionReuseAddr, 0)
}

// SetAFOnly makes an ID bound to the IPv6 wildcard take no IPv4 requests. It can
// be set and taken back before Listen. Taken back after Bind, when another has bound
// the port on IPv4 meanwhile, it returns ErrAddrNotAvailable and changes nothing;
// through librdmacm it is Listen that says so. Source: rdma_set_option(3).
func (id *ID) SetAFOnly(on bool) error {
	value := 0
	if on {
		value = 1
	}
	return id.setOption(callSetAFOnly, OptionAFOnly, value)
}

// SetAckTimeout sets the local ACK timeout of the ID's queue pair: code c, at
// most 31, means 4.096 µs * 2^c, and 0 none at all. Set before ResolveRoute it
// also governs the repetition of connection messages; it must come before
// Connect or Accept. In the UDP port space the error is a *verbs.FeatureError.
// Source: rdma_set_option(3).
func (id *ID) SetAckTimeout(code uint8) error {
	return id.setOption(callSetAckTimeout, OptionAckTimeout, int(code))
}

// SetMinRNRTimer sets the code of the minimum RNR timer of the ID's queue pair,
// from 0 to 31: how long the peer waits before it repeats a message for which
// there was no receive buffer here. verbs.RNRDelay tells the time of each code; it is
// 0.64 ms for DefaultMinRNRTimer, which is set when nothing else is. The manual
// page, rdma_accept(3) of 2014, sets code 0, which is the longest wait, 655 ms;
// this package waits less on purpose, for latency. It must come before Connect or
// Accept. In the UDP port space the error is a *verbs.FeatureError.
func (id *ID) SetMinRNRTimer(code uint8) error {
	return id.setOption(callSetMinRNRTimer, OptionMinRNRTimer, int(code))
}

func (id *ID) setOption(c call, option Option, value int) error {
	return id.do(c, func() error {
		if option == OptionAckTimeout || option == OptionMinRNRTimer {
			if err := id.checkTimerCode(option, value); err != nil {
				return err
			}
		}
		return id.t.SetOption(option, value)
	})
}

// checkTimerCode checks an option that is the code of a time.
func (id *ID) checkTimerCode(option Option, code int) error {
	if id.ps == UDP {
		return &verbs.FeatureError{Feature: option.String(), Reason: errors.New("datagrams are not acknowledged")}
	}
	field := "ACK timeout code"
	if option == OptionMinRNRTimer {
		field = "minimum RNR timer code"
	}
	return atMost(field, code, maxTimerCode)
}
