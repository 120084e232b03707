//go:build !unix

package reactor

func mapMemory(int) ([]byte, error) { return nil, errPlatform }

func mapFile(int, int64, int, bool) ([]byte, error) { return nil, errPlatform }

func unmap([]byte) error { return errPlatform }
