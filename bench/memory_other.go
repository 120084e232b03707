//go:build !linux

package main

import "errors"

var errNoMemory = errors.New("memory is shared on Linux only")

func makeShared(int) (*sharedMemory, error) { return nil, errNoMemory }

func openShared(string, int) (*sharedMemory, error) { return nil, errNoMemory }
