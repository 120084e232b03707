// Package cmside has the helper Side for tests of connection management. A test makes a
// Side for each side of a connection. A Side works with every implementation of
// cm.Transport.
package cmside
