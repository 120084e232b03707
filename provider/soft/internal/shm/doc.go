// Package shm is the memory through which two shards exchange messages. The shards may
// belong to two processes. A segment of shared memory has a ring of slots in each
// direction. A doorbell wakes the other shard.
//
// The other process can write any bytes at any time. So this package reads each number
// once, and then checks and uses the copy.
package shm

// The files of this package, in reading order:
//
//	doorbell_unsafe.go  system calls on doorbells
//	doorbell.go         doorbells
//	ack.go              acknowledgements in shared memory
//	control_block.go    what a side publishes about itself
//	slot.go             contents of a slot
//	geometry.go         sizes of rings and segments
//	copy_amd64.go       copies past the caches in assembly code
//	copy_other.go       the same without assembly code
//	copy.go             copies past the caches
//	ring.go             rings of slots
//	owned.go            memory for payloads in the caches of the producer
//	segment_unsafe.go   layout of a segment
//	mapped_bytes.go     limits of the bytes that peers make a device map
//	mappings.go         limit of mapped segments
//	mapper.go           mapping within the limits
//	segment.go          Segment: the shared memory of two shards
//	region_unsafe.go    description of a memory region in its memfd
//	region.go           memory regions that peers can map
//	peer_shards.go      limit of the shards of a peer process
//	end.go              End: the resources of one side
//	ends.go             table of the ends of a device
