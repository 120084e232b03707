// Package qptest has what tests of queue pairs and of paths share: a Device, which is an
// engine whose paths the test makes, an End, which is a queue pair with its memory and CQ,
// and a Sim, which connects shards by a simulated network in virtual time.
package qptest
