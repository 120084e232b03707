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

// SetReuseAddr sets the option REUSEADDR. IDs with this option can share an address and
// port. At most one of them can listen. The option must be set before Listen, and can be
// cleared only before Bind. With the soft device, SetReuseAddr after Connect may return
// a *verbs.FeatureError. Source: rdma_set_option(3).
func (id *ID) SetReuseAddr(on bool) error {
	if on {
		return id.setOption(callSetReuseAddr, OptionReuseAddr, 1)
	}
	return id.setOption(callClearReuseAddr, OptionReuseAddr, 0)
}

// SetAFOnly decides whether an ID on the IPv6 wildcard accepts IPv6 requests only. The
// call must precede Listen. If another ID has taken the port on IPv4, SetAFOnly(false)
// returns ErrAddrNotAvailable. With librdmacm, Listen returns this error. Source:
// rdma_set_option(3).
func (id *ID) SetAFOnly(on bool) error {
	value := 0
	if on {
		value = 1
	}
	return id.setOption(callSetAFOnly, OptionAFOnly, value)
}

// SetAckTimeout sets the local ACK timeout of the queue pair, as a code for
// verbs.AckTimeout from 0 to 31. The call must precede Connect or Accept. Before
// ResolveRoute it also sets the retransmission time of connection messages. In the UDP
// port space the error is a *verbs.FeatureError. Source: rdma_set_option(3).
func (id *ID) SetAckTimeout(code uint8) error {
	return id.setOption(callSetAckTimeout, OptionAckTimeout, int(code))
}

// SetMinRNRTimer sets how long the peer waits before it repeats a message for which this
// side had no receive buffer. The value is a code for verbs.RNRDelay from 0 to 31. The
// default is DefaultMinRNRTimer. The call must precede Connect or Accept. In the UDP
// port space the error is a *verbs.FeatureError.
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
