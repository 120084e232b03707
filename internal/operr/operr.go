// Package operr adds the name of the failed operation to the errors that the packages of
// this module return.
package operr

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wrap returns err as a *verbs.OpError for the operation op. It returns nil if err is
// nil. If err has a *verbs.OpError in its chain already, Wrap returns err unchanged and
// does not add op. So an error names only the innermost operation: the caller knows the
// function that it has called, and learns from the error which step of that function has
// failed.
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
