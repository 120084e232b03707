//go:build !linux

package poller

type bell struct{ fd int }

func (*bell) open() error { return errUnsupported() }

func (*bell) ring() {}

func (*bell) silence() {}

func (*bell) awaitRing() {}

func (*bell) close() error { return errUnsupported() }
