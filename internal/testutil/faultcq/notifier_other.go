//go:build !linux

package faultcq

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

type notifier struct{ fd int }

func newNotifier() (*notifier, error) {
	return nil, &verbs.FeatureError{Feature: "eventfd", Reason: errors.New("only Linux has it")}
}

func (*notifier) set(bool) {}

func (*notifier) readable() (bool, error) { return false, nil }

func (*notifier) close() error { return nil }
