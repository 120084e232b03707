package cm

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// SetTOS sets the type of service of the ID's packets. It must be called before
// ResolveRoute, which uses the value. Source: rdma_set_option(3).
func (id *ID) SetTOS(tos uint8) error {
	return id.setOption(callSetTOS, OptionTOS, int(tos))
}

// SetReuseAddr allows the ID to share its address and port with other IDs that set the
// option too. At most one of these IDs can listen. The option can be set on any ID that
// does not listen; if it is set after Bind, other IDs can share the port from then on.
// The option can be cleared only before Bind. The error is a *verbs.FeatureError if the
// port of the ID can not be shared any more. An example is an ID of the soft device after
// Connect to a process on the same host. Source: rdma_set_option(3).
func (id *ID) SetReuseAddr(on bool) error {
	if on {
		return id.setOption(callSetReuseAddr, OptionReuseAddr, 1)
	}
	return id.setOption(callClearReuseAddr, OptionReuseAddr, 0)
}

// SetAFOnly is for an ID that is bound to the IPv6 wildcard. If the parameter on is
// true, the ID accepts only IPv6 requests. Otherwise it accepts IPv4 requests too.
// SetAFOnly must be called before Listen, and may be called before or after Bind. The
// call SetAFOnly(false) after Bind returns ErrAddrNotAvailable and changes nothing if
// another ID has bound the port on IPv4 meanwhile; with librdmacm, Listen returns that
// error instead. Source: rdma_set_option(3).
func (id *ID) SetAFOnly(on bool) error {
	value := 0
	if on {
		value = 1
	}
	return id.setOption(callSetAFOnly, OptionAFOnly, value)
}

// SetAckTimeout sets the local ACK timeout of the ID's queue pair, as a code from 0 to
// 31; see verbs.AckTimeout. SetAckTimeout must be called before Connect or Accept. A call
// before ResolveRoute also sets the time between retransmissions of connection messages.
// In the UDP port space the error is a *verbs.FeatureError. Source: rdma_set_option(3).
func (id *ID) SetAckTimeout(code uint8) error {
	return id.setOption(callSetAckTimeout, OptionAckTimeout, int(code))
}

// SetMinRNRTimer sets the code of the minimum RNR timer of the ID's queue pair, from 0
// to 31. The timer is the time that the peer waits before it repeats a message for which
// this side had no receive buffer; see verbs.RNRDelay. Without this call the code is
// DefaultMinRNRTimer, 0.64 ms. The manual page, rdma_accept(3) of 2014, specifies code
// 0, the longest time (655 ms); this package uses a shorter one, for latency.
// SetMinRNRTimer must be called before Connect or Accept. In the UDP port space the
// error is a *verbs.FeatureError.
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

// checkTimerCode checks the value of an option that is a timer code.
func (id *ID) checkTimerCode(option Option, code int) error {
	if id.ps == UDP {
		return &verbs.FeatureError{Feature: option.String(), Reason: errors.New("datagrams are not acknowledged")}
	}
	field := "ACK timeout code"
	if option == OptionMinRNRTimer {
		field = "minimum RNR timer code"
	}
	return atMost(field, code, verbs.MaxTimerCode)
}
