package main

import (
	"os"
	"sync/atomic"
)

// A sharedFile is a file that the server and the client both map.
type sharedFile struct {
	file   *os.File
	memory []byte
}

// A cell has the bytes of a message and the message's number, from 1. The sender writes
// the bytes first. So the receiver polls only the number.
type cell struct {
	count *atomic.Uint64
	bytes []byte
}

// cellAlign is the alignment of cells in bytes. Some processors fetch cache lines of 64
// bytes in pairs.
const cellAlign = 128

// cellSize returns the bytes of a cell for messages of the given length.
func cellSize(message int) int {
	const counter = 8
	return (counter + message + cellAlign - 1) / cellAlign * cellAlign
}

// cells returns n adjacent cells, beginning at an offset of the file.
func (f *sharedFile) cells(offset, n, message int) []cell {
	all := make([]cell, n)
	for i := range all {
		all[i] = cellAt(f.memory, offset+i*cellSize(message), message)
	}
	return all
}

// A spinner is a goroutine that polls shared memory.
type spinner struct {
	stop     atomic.Bool
	finished chan struct{}
}

// run calls f until end() is called.
func (s *spinner) run(f func()) {
	s.finished = make(chan struct{})
	go func() {
		defer close(s.finished)
		for !s.stop.Load() {
			f()
		}
	}()
}

// end stops the goroutine and waits until it has ended.
func (s *spinner) end() {
	s.stop.Store(true)
	<-s.finished
}
