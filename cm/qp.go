package cm

import (
	"fmt"

	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// CreateQP creates the queue pair of the ID. The type in attr must be the type of the
// port space, and both CQs must be set. CreateQP does not keep attr. The caller closes
// the queue pair with CloseQP. Source: rdma_create_qp(3).
//
// An RC queue pair starts in INIT, where receive buffers can be posted. From then on it
// follows the state of the connection. A UD queue pair starts in RTS with DefaultQKey.
//
// If pd belongs to another device, the error is verbs.ErrForeign. The other errors are
// the same as for verbs.PD.CreateQP.
func (id *ID) CreateQP(pd verbs.PD, attr *verbs.QPInitAttr) error {
	return id.do(callCreateQP, func() error {
		dev, err := id.device()
		if err != nil {
			return err
		}
		if err := checkQP(id.ps, dev, pd, attr); err != nil {
			return err
		}
		qp, err := id.t.CreateQP(pd, attr)
		if err != nil {
			return err
		}
		id.qp, id.srq = qp, attr.SRQ != nil
		return nil
	})
}

// QP returns the queue pair of the ID, or nil if there is none. The ID moves it through its
// states, and CloseQP closes it. Callers must do neither, except for the move to StateError.
func (id *ID) QP() verbs.QP {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// CloseQP closes the queue pair of the ID, if there is one. Outstanding requests are
// dropped. The caller closes the queue pair before its CQs and before the ID. After an
// error the ID still has the queue pair. Source: rdma_destroy_qp(3).
func (id *ID) CloseQP() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.qp == nil {
		return nil
	}
	if err := id.qp.Close(); err != nil {
		return operr.Wrap("cm close QP", err)
	}
	id.qp, id.srq = nil, false
	return nil
}

// InitQPAttr returns the attributes and the mask with which a program moves its own
// queue pair to INIT, RTR or RTS. For any other state the error is a *verbs.ParamError.
// In the TCP port space, RTR and RTS are possible only after ConnectRequest or
// ConnectResponse. Source: rdma_init_qp_attr(3).
func (id *ID) InitQPAttr(state verbs.QPState) (attr verbs.QPAttr, mask verbs.QPAttrMask, err error) {
	c := callInitQPAttr
	if state == verbs.StateRTR || state == verbs.StateRTS {
		c = callReadyQPAttr
	}
	err = id.do(c, func() error {
		if state < verbs.StateInit || state > verbs.StateRTS {
			return &verbs.ParamError{Field: "QP state", Value: int64(state), Limit: int64(verbs.StateRTS), Reason: "only INIT, RTR and RTS are allowed"}
		}
		if _, err := id.device(); err != nil {
			return err
		}
		attr, mask, err = id.t.InitQPAttr(state)
		return err
	})
	return attr, mask, err
}

// device returns the device of the ID. Without a device the error matches verbs.ErrState.
func (id *ID) device() (verbs.Device, error) {
	if dev := id.t.Device(); dev != nil {
		return dev, nil
	}
	return nil, fmt.Errorf("%w: the ID has no device", verbs.ErrState)
}
