// Package operr adds the name of the failed operation to the errors of this module.
package operr

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wrap returns err as a *verbs.OpError for the operation op, or nil if err is nil. An
// error that already has a *verbs.OpError in its chain is returned unchanged, so that it
// names the innermost operation.
func Wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	var inner *verbs.OpError
	if errors.As(err, &inner) {
		return err
	}
	return &verbs.OpError{Op: op, Err: err}
}
