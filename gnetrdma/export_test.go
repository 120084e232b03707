package gnetrdma

import "github.com/panjf2000/gnet/v2"

// FailStream makes the stream of a connection fail with an error. OnClose follows after
// the callback that calls FailStream.
func FailStream(c gnet.Conn, err error) error { return c.(*conn).stream.Abort(err) }
