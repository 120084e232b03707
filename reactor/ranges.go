package reactor

import (
	"fmt"
	"time"

	"github.com/rdmaloop/rdmaloop/verbs"
)

// checkRange returns a *verbs.ParamError for fieldName if v is out of range.
func checkRange(fieldName string, v, low, high int) error {
	switch {
	case v < low:
		return &verbs.ParamError{Field: fieldName, Value: int64(v), Limit: int64(low), Reason: "too small"}
	case v > high:
		return &verbs.ParamError{Field: fieldName, Value: int64(v), Limit: int64(high)}
	}
	return nil
}

// checkTime returns a *verbs.ParamError for fieldName if v is negative. The value in the
// error is in nanoseconds.
func checkTime(fieldName string, v time.Duration) error {
	if v >= 0 {
		return nil
	}
	return &verbs.ParamError{Field: fieldName, Value: int64(v), Reason: fmt.Sprintf("%v is negative", v)}
}

// checkTimeUpTo returns a *verbs.ParamError for fieldName if v is negative or greater
// than the parameter high.
func checkTimeUpTo(fieldName string, v, high time.Duration) error {
	if v <= high {
		return checkTime(fieldName, v)
	}
	return &verbs.ParamError{
		Field: fieldName, Value: int64(v), Limit: int64(high), Reason: fmt.Sprintf("%v is longer than the limit, %v", v, high),
	}
}
