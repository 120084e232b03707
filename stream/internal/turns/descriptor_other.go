//go:build !linux

package turns

import (
	"os"

	"github.com/rdmaloop/rdmaloop/verbs"
)

func duplicate(int) (*os.File, error) { return nil, verbs.ErrNotSupported }

func readable(uintptr) bool { return true }
