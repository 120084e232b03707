package providertest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// checks are the assertions of a case. Each ends the case if it does not hold. They have the
// names and the parameters of package require of testify, which the suite does not import,
// because programs import the suite: see cmd/rdmaloop.
type checks struct{ t *testing.T }

// fail ends the case. The message is a format and its arguments, or nothing.
func (c checks) fail(what string, message []any) {
	c.t.Helper()
	if len(message) > 0 {
		what += ": " + fmt.Sprintf(message[0].(string), message[1:]...)
	}
	c.t.Fatal(what)
}

func (c checks) FailNow(what string, message ...any) {
	c.t.Helper()
	c.fail(what, message)
}

func (c checks) True(ok bool, message ...any) {
	c.t.Helper()
	if !ok {
		c.fail("not true", message)
	}
}

func (c checks) False(no bool, message ...any) {
	c.t.Helper()
	if no {
		c.fail("not false", message)
	}
}

func (c checks) NoError(err error, message ...any) {
	c.t.Helper()
	if err != nil {
		c.fail("error "+err.Error(), message)
	}
}

func (c checks) Error(err error, message ...any) {
	c.t.Helper()
	if err == nil {
		c.fail("no error", message)
	}
}

func (c checks) ErrorIs(err, target error, message ...any) {
	c.t.Helper()
	if !errors.Is(err, target) {
		c.fail(fmt.Sprintf("error %v instead of %v", err, target), message)
	}
}

func (c checks) NotErrorIs(err, target error, message ...any) {
	c.t.Helper()
	if errors.Is(err, target) {
		c.fail(fmt.Sprintf("error %v", err), message)
	}
}

// ErrorAs requires a type of error. The target is a pointer, as for errors.As.
func (c checks) ErrorAs(err error, target any, message ...any) {
	c.t.Helper()
	if !errors.As(err, target) {
		c.fail(fmt.Sprintf("error %v is no %v", err, reflect.TypeOf(target).Elem()), message)
	}
}

func (c checks) Equal(want, got any, message ...any) {
	c.t.Helper()
	if !equal(want, got) {
		c.fail(fmt.Sprintf("%#v instead of %#v", got, want), message)
	}
}

func (c checks) NotEqual(unwanted, got any, message ...any) {
	c.t.Helper()
	if equal(unwanted, got) {
		c.fail(fmt.Sprintf("%#v", got), message)
	}
}

func equal(a, b any) bool {
	if a, ok := a.([]byte); ok {
		b, ok := b.([]byte)
		return ok && bytes.Equal(a, b)
	}
	return reflect.DeepEqual(a, b)
}

func (c checks) Zero(got any, message ...any) {
	c.t.Helper()
	if got != nil && !reflect.ValueOf(got).IsZero() {
		c.fail(fmt.Sprintf("%#v instead of zero", got), message)
	}
}

func (c checks) NotZero(got any, message ...any) {
	c.t.Helper()
	if got == nil || reflect.ValueOf(got).IsZero() {
		c.fail("zero", message)
	}
}

// Len requires the length of a slice, string or map.
func (c checks) Len(list any, want int, message ...any) {
	c.t.Helper()
	if got := reflect.ValueOf(list).Len(); got != want {
		c.fail(fmt.Sprintf("length %d instead of %d: %v", got, want, list), message)
	}
}

func (c checks) Empty(list any, message ...any) {
	c.t.Helper()
	if reflect.ValueOf(list).Len() != 0 {
		c.fail(fmt.Sprintf("not empty: %v", list), message)
	}
}

func (c checks) NotEmpty(list any, message ...any) {
	c.t.Helper()
	if reflect.ValueOf(list).Len() == 0 {
		c.fail("empty", message)
	}
}

func (c checks) Positive(got any, message ...any) {
	c.t.Helper()
	c.ordered(got, reflect.Zero(reflect.TypeOf(got)).Interface(), "not positive", message, 1)
}

func (c checks) Less(a, b any, message ...any) {
	c.t.Helper()
	c.ordered(a, b, "not less", message, -1)
}

func (c checks) LessOrEqual(a, b any, message ...any) {
	c.t.Helper()
	c.ordered(a, b, "greater", message, -1, 0)
}

func (c checks) Greater(a, b any, message ...any) {
	c.t.Helper()
	c.ordered(a, b, "not greater", message, 1)
}

func (c checks) GreaterOrEqual(a, b any, message ...any) {
	c.t.Helper()
	c.ordered(a, b, "less", message, 1, 0)
}

// ordered requires that comparing two numbers of one type gives one of the results of
// cmp.Compare.
func (c checks) ordered(a, b any, what string, message []any, allowed ...int) {
	c.t.Helper()
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	var result int
	switch {
	case va.Type() != vb.Type():
		c.t.Fatalf("comparing %T with %T", a, b)
	case va.CanInt():
		result = cmp.Compare(va.Int(), vb.Int())
	case va.CanUint():
		result = cmp.Compare(va.Uint(), vb.Uint())
	default:
		c.t.Fatalf("comparing values of the type %T", a)
	}
	if !slices.Contains(allowed, result) {
		c.fail(fmt.Sprintf("%v and %v: %s", a, b, what), message)
	}
}
