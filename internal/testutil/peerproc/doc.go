// Package peerproc runs a second process of the test binary as the peer of a test. The
// second process may belong to another user.
package peerproc
