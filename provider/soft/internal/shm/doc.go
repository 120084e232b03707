// Package shm is the memory through which two shards exchange messages. The shards may
// belong to two processes. A segment of shared memory has a ring of slots in each
// direction. A doorbell wakes the other shard.
//
// The other process can write any bytes at any time. So this package reads each number
// once, and then checks and uses the copy.
package shm
