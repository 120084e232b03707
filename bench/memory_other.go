//go:build !linux

package main

import "errors"

var errNoMemory = errors.New("shared memory needs Linux")

func makeShared(int) (*sharedMemory, error) { return nil, errNoMemory }

func openShared(string, int) (*sharedMemory, error) { return nil, errNoMemory }
