//go:build !linux

package main

import "errors"

func used(bool) (usage, error) {
	return usage{}, errors.New("resource usage is measured on Linux only")
}
