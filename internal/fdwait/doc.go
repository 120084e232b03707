// Package fdwait waits until a descriptor is readable. Calls that block use it, so that a
// context can cancel them.
package fdwait
