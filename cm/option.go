package cm

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// SetTOS sets the type of service of the ID's packets. Call it before ResolveRoute, which
// uses the value. For this and the other options, the error of a later call matches
// verbs.ErrState. Source: rdma_set_option(3).
func (id *ID) SetTOS(tos uint8) error {
	return id.setOption(callSetTOS, OptionTOS, int(tos))
}

// SetReuseAddr sets the option REUSEADDR. IDs with this option can share an address and
// port, but only one of them can listen. Set the option before Listen. It can be cleared
// only before Bind. With the soft device, SetReuseAddr after Connect may return a
// *verbs.FeatureError. Source: rdma_set_option(3).
func (id *ID) SetReuseAddr(on bool) error {
	if on {
		return id.setOption(callSetReuseAddr, OptionReuseAddr, 1)
	}
	return id.setOption(callClearReuseAddr, OptionReuseAddr, 0)
}

// SetAFOnly decides what a listener on the IPv6 wildcard accepts: with true only IPv6
// requests, with false IPv4 requests too. The default is false with the soft device, and
// /proc/sys/net/ipv6/bindv6only with the kernel. Call SetAFOnly before Listen. Source:
// rdma_set_option(3).
//
// If another ID has taken the port on IPv4, SetAFOnly(false) returns
// ErrAddrNotAvailable. With librdmacm, Listen returns this error.
func (id *ID) SetAFOnly(on bool) error {
	value := 0
	if on {
		value = 1
	}
	return id.setOption(callSetAFOnly, OptionAFOnly, value)
}

// SetAckTimeout sets the local ACK timeout of the queue pair. The value is a code from 0
// to 31, as for verbs.AckTimeout; 0 means no timeout. The default depends on the path and on
// the peer's device. Call SetAckTimeout before Connect or Accept. If it is called before
// ResolveRoute, it also sets the time after which connection messages are repeated. In the
// UDP port space the error is a *verbs.FeatureError. Source: rdma_set_option(3).
func (id *ID) SetAckTimeout(code uint8) error {
	return id.setOption(callSetAckTimeout, OptionAckTimeout, int(code))
}

// SetMinRNRTimer sets how long the peer waits if this side had no receive buffer for a
// message. After this time the peer sends the message again. The value is a code from 0
// to 31, as for verbs.RNRDelay. The default is DefaultMinRNRTimer. Call SetMinRNRTimer
// before Connect or Accept. In the UDP port space the error is a *verbs.FeatureError.
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

// checkTimerCode checks the code of a timer option.
func (id *ID) checkTimerCode(option Option, code int) error {
	if id.ps == UDP {
		return &verbs.FeatureError{Feature: option.String(), Reason: errors.New("datagrams are not acknowledged")}
	}
	field := "ACK timeout code"
	if option == OptionMinRNRTimer {
		field = "minimum RNR timer code"
	}
	return operr.CheckRange(field, code, 0, verbs.MaxTimerCode)
}
