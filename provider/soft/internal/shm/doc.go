// Package shm has the shared memory of a connection between two processes of one host: a
// segment, with one ring for requests and one ring for responses in each direction. It
// also has the doorbells, by which one process wakes the other. A MappingLimit keeps the
// number of segments of a process below the number of mappings that the kernel allows.
//
// The other process can write any bytes into the memory at any time. This package
// therefore copies each number once, and checks and uses only the copy.
package shm

// The files of this package, in reading order:
//
//	doorbell_unsafe.go  system calls on doorbells
//	doorbell.go         doorbells
//	ack.go              acknowledgements in shared memory
//	geometry.go         sizes of rings and segments
//	ring.go             rings of slots
//	segment_unsafe.go   layout of a segment
//	mappings.go         limit of mapped segments
//	segment.go          Segment: the shared memory of a connection
//	end.go              End: the resources of one end of a connection
