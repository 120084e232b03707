package main

import (
	"os"
	"sync/atomic"
)

// A sharedFile is a file that the server and the client map.
type sharedFile struct {
	file   *os.File
	memory []byte
}

// A cell has the number of a message, which begins with 1, and its bytes. The sender
// writes the bytes first, so the receiver only polls the number.
type cell struct {
	count *atomic.Uint64
	bytes []byte
}

// cellAlign is the alignment of cells in bytes. Some processors fetch cache lines of 64
// bytes in pairs.
const cellAlign = 128

// cellSize is the length of a cell in bytes for messages of the given length.
func cellSize(message int) int {
	const counter = 8
	return (counter + message + cellAlign - 1) / cellAlign * cellAlign
}

// cells returns n cells, one after another, beginning at the offset.
func (f *sharedFile) cells(offset, n, message int) []cell {
	all := make([]cell, n)
	for i := range all {
		all[i] = cellAt(f.memory, offset+i*cellSize(message), message)
	}
	return all
}

// A spinner is a goroutine that polls shared memory until it is stopped.
type spinner struct {
	stop     atomic.Bool
	finished chan struct{}
}

// run calls f until stop is true.
func (s *spinner) run(f func()) {
	s.finished = make(chan struct{})
	go func() {
		defer close(s.finished)
		for !s.stop.Load() {
			f()
		}
	}()
}

// end stops the goroutine and waits for its end.
func (s *spinner) end() {
	s.stop.Store(true)
	<-s.finished
}
