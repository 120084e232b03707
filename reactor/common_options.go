package reactor

import "github.com/rdmaloop/rdmaloop/cm"

// setOptions sets the options that listeners and dialed connections have in common. For
// zero values the provider's defaults apply.
func setOptions(id *cm.ID, tos uint8, reuseAddr bool) error {
	if tos > 0 {
		if err := id.SetTOS(tos); err != nil {
			return err
		}
	}
	if !reuseAddr {
		return nil
	}
	return id.SetReuseAddr(true)
}

// handlerOr returns h, or the second parameter if h is nil.
func handlerOr(h ConnHandler, fallback Handler) ConnHandler {
	if h == nil {
		return fallback
	}
	return h
}
