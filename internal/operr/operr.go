// Package operr adds the name of the failed operation to the errors that the packages of
// this module return.
package operr

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wrap returns err as a *verbs.OpError for the operation op. It returns nil if err is
// nil. If the chain of err has a *verbs.OpError already, Wrap returns err unchanged. The
// error then names only the innermost operation. That is enough: the caller knows which
// function it has called, and the error says which step inside that function has failed.
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
