// Package packets connects the queue pairs of a shard with its UDP sockets. A Demux
// delivers packets to queue pairs by number, and lets the queue pairs send when they may.
package packets
