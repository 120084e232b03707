// Package nettest changes interface addresses in tests with their own network namespace;
// see peerproc.InNetworkNamespace.
package nettest
