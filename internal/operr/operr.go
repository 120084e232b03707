// Package operr adds the name of the failed operation to the errors that the packages of
// this module return.
package operr

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wrap returns err as a *verbs.OpError for the operation op. It returns nil if err is
// nil. If err has a *verbs.OpError in its chain already, Wrap returns err unchanged and
// does not add op. So an error names one operation only, the innermost one: a caller
// knows which function it has called, and the innermost operation tells it which step of
// the function has failed.
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
