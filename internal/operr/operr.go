// Package operr makes errors of this module: with the name of the failed operation, of a
// missing feature, or of a number out of range.
package operr

import (
	"errors"
	"time"

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

// Cause returns the cause if err is a *verbs.OpError, and else err. The caller names the
// operation that the application has called, in place of the one below it that has failed.
func Cause(err error) error {
	if inner, ok := err.(*verbs.OpError); ok {
		return inner.Err
	}
	return err
}

// Unsupported returns err. If err matches errors.ErrUnsupported, the result is a
// *verbs.FeatureError for the named feature.
func Unsupported(feature string, err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return &verbs.FeatureError{Feature: feature, Reason: err}
	}
	return err
}

// CheckRange returns a *verbs.ParamError for the named argument if v is not from low to high.
func CheckRange[T int | int64 | time.Duration](field string, v, low, high T) error {
	_, isTime := any(v).(time.Duration)
	switch {
	case v < low:
		return &verbs.ParamError{Field: field, Value: int64(v), Limit: int64(low), Duration: isTime}
	case v > high:
		return &verbs.ParamError{Field: field, Value: int64(v), Limit: int64(high), Duration: isTime}
	}
	return nil
}
