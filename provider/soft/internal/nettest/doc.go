// Package nettest changes the addresses of network interfaces in tests that run in a
// network namespace of their own; see peerproc.InNetworkNamespace.
package nettest
