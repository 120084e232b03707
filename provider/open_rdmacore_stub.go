//go:build !rdmacore || !cgo || !linux

package provider

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// hasRDMACore reports whether this build includes provider/rdmacore.
const hasRDMACore = false

func openRDMACore() (cm.Provider, error) {
	return nil, &verbs.FeatureError{
		Feature: "provider rdmacore",
		Reason:  errors.New("this build has no access to RDMA hardware: it lacks the build tag rdmacore, or cgo"),
	}
}
