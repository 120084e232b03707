//go:build !linux

package reactor

// ConfineRuntime returns an error, because it is implemented on Linux only.
func ConfineRuntime([]int) error { return errPlatform }
