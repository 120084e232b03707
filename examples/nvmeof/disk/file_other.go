//go:build !linux

package disk

import (
	"errors"
	"os"
)

// lock does nothing: a second target on the same file is not noticed on this system.
func lock(*os.File, bool) error { return nil }

func inMemory(*os.File) bool { return false }

func readNoWait(*os.File, []byte, int64) bool { return false }

func writeNoWait(*os.File, []byte, int64) bool { return false }

func flush(f *os.File) error { return f.Sync() }

func zero(*os.File, int64, int64) error { return errors.ErrUnsupported }

func punch(*os.File, int64, int64) error { return errors.ErrUnsupported }
