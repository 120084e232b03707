//go:build !linux

package faultcq

import (
	"errors"

	"github.com/rdmaloop/rdmaloop/verbs"
)

type bell struct{ fd int }

func newBell() (*bell, error) {
	return nil, &verbs.FeatureError{Feature: "eventfd", Reason: errors.New("Linux only")}
}

func (*bell) set(bool) {}

func (*bell) readable() (bool, error) { return false, nil }

func (*bell) close() error { return nil }
