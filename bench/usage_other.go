//go:build !linux

package main

import "errors"

func used(bool) (usage, error) {
	return usage{}, errors.New("what a process uses can be told on Linux only")
}
