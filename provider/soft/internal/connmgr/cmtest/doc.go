// Package cmtest has a device without data path, and helpers for tests of connection
// management over a transport.
package cmtest
