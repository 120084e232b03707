//go:build rdmacore && cgo && linux

package provider

import (
	"github.com/rdmaloop/rdmaloop/cm"
	"github.com/rdmaloop/rdmaloop/provider/rdmacore"
)

// hasRDMACore reports whether this build includes provider/rdmacore.
const hasRDMACore = true

func openRDMACore() (cm.Provider, error) {
	p, err := rdmacore.Open()
	if err != nil {
		return nil, err // p is a nil pointer, but as a cm.Provider it would not equal nil.
	}
	return p, nil
}
