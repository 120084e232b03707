package cm

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// SetTOS sets the type of service of the ID's packets. It must be called before
// ResolveRoute, which uses the value. A later call returns a *StateError. Source:
// rdma_set_option(3).
func (id *ID) SetTOS(tos uint8) error {
	return id.setOption(callSetTOS, OptionTOS, int(tos))
}

// SetReuseAddr allows the ID to share its address and port with other IDs that set the
// option too. At most one of them can listen. A listener can not set the option. It can
// be cleared only before Bind. If the port can not be shared any more, the error is a
// *verbs.FeatureError. Source: rdma_set_option(3).
func (id *ID) SetReuseAddr(on bool) error {
	if on {
		return id.setOption(callSetReuseAddr, OptionReuseAddr, 1)
	}
	return id.setOption(callClearReuseAddr, OptionReuseAddr, 0)
}

// SetAFOnly restricts an ID on the IPv6 wildcard to IPv6 requests, or with false allows
// IPv4 requests too. The call must precede Listen. If another ID has bound the port on
// IPv4 since Bind, SetAFOnly(false) returns ErrAddrNotAvailable and changes nothing;
// with librdmacm, Listen returns that error. Source: rdma_set_option(3).
func (id *ID) SetAFOnly(on bool) error {
	value := 0
	if on {
		value = 1
	}
	return id.setOption(callSetAFOnly, OptionAFOnly, value)
}

// SetAckTimeout sets the local ACK timeout of the ID's queue pair, as a code from 0 to
// 31: see verbs.AckTimeout. It must be called before Connect or Accept. Before
// ResolveRoute it also sets the retransmission time of connection messages. In the UDP
// port space the error is a *verbs.FeatureError. Source: rdma_set_option(3).
func (id *ID) SetAckTimeout(code uint8) error {
	return id.setOption(callSetAckTimeout, OptionAckTimeout, int(code))
}

// SetMinRNRTimer sets the minimum RNR timer of the ID's queue pair, as a code from 0 to
// 31: see verbs.RNRDelay. The peer waits for this time before it repeats a message for
// which this side had no receive buffer. The default is DefaultMinRNRTimer. It must be
// called before Connect or Accept. In the UDP port space the error is a
// *verbs.FeatureError.
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
