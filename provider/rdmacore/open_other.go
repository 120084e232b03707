//go:build !cgo || !linux

package rdmacore

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/internal/operr"
	"github.com/rdmaloop/rdmaloop/verbs"
)

// Open returns an error, because calling the libraries needs Linux and cgo.
func Open() (cm.Provider, error) {
	return nil, operr.Wrap("open rdmacore", &verbs.FeatureError{
		Feature: "provider rdmacore",
		Reason: errors.New("no access to RDMA hardware: this program was built without cgo, which needs Linux, " +
			"a C compiler and CGO_ENABLED=1. The provider soft needs none"),
	})
}
