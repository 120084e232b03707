// Package operr adds the name of the failed operation to the errors of this module.
package operr

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// Wrap adds the name of the operation op to err, as a *verbs.OpError. If err is nil, Wrap
// returns nil. If there is already a *verbs.OpError in the chain of err, Wrap returns err
// unchanged. So an error names the innermost operation.
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

// Unsupported returns err. If err matches errors.ErrUnsupported, the result is a
// *verbs.FeatureError for the named feature.
func Unsupported(feature string, err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return &verbs.FeatureError{Feature: feature, Reason: err}
	}
	return err
}
