// Package cmside has helpers for tests of connection management. A test opens a Side for
// each side of a connection. A Side works with every cm.Transport.
package cmside
