//go:build !linux

package poller

type eventfd struct{ fd int }

func (*eventfd) open() error { return errUnsupported() }

func (*eventfd) signal() {}

func (*eventfd) reset() {}

func (*eventfd) awaitSignal() {}

func (*eventfd) close() error { return errUnsupported() }
