//go:build !linux

package poller

type waker struct{ fd int }

func (*waker) open() error { return errUnsupported() }

func (*waker) wake() {}

func (*waker) consume() {}

func (*waker) close() error { return errUnsupported() }
