package cm

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// maxAckTimeout is the largest code of a local ACK timeout: it has five bits.
const maxAckTimeout = 31

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

func (id *ID) setOption(c call, option Option, value int) error {
	return id.do(c, func() error {
		if option == OptionAckTimeout {
			if id.ps == UDP {
				return &verbs.FeatureError{Feature: option.String(), Reason: errors.New("datagrams are not acknowledged")}
			}
			if err := atMost("ACK timeout code", value, maxAckTimeout); err != nil {
				return err
			}
		}
		return id.t.SetOption(option, value)
	})
}
