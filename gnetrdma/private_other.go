//go:build !linux

package gnetrdma

import "github.com/panjf2000/gnet/v2"

// closePrivate does nothing: no device of this system can be opened.
func closePrivate(gnet.Engine) {}
