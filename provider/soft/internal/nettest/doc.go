// Package nettest adds and removes addresses of network interfaces in tests. Such a test
// has its own network namespace; see peerproc.InNetworkNamespace.
package nettest
