//go:build rdmacore && cgo && linux

package provider

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// hasRDMACore reports whether provider/rdmacore is compiled in.
const hasRDMACore = true

func openRDMACore(*Config) (cm.Provider, error) {
	p, err := rdmacore.Open()
	if err != nil {
		return nil, err // not p: a nil *rdmacore.Provider is not a nil interface
	}
	return p, nil
}
