// Package cmside is for tests of connection management. It has the two sides of a
// connection, and waits for their events. It works with every implementation of
// cm.Transport.
package cmside
